"""`emulator sweep`: from a plan to a directory of records.

::

    plan      order and expected time             (plan.py)
    cell      scenario in, record out             (cell.py: importable, picklable, no state)
    workers   processes that take cells           (workers.py: the virtual clock)
    command   one sweep from start to tables      (command.py)

What is kept, and how it is read again, is report/sweep_directory.py.
"""
