"""Results held against published figures, and against each other.

::

    reference (report/reference.py) ─┐
    a sweep's cells (results) ───────┴─ published ─── published_text     per cell: published, result, error
    two sweeps, two runs (samples) ──── differences ─ differences_text   per cell: B-A, interval, rank test (ranks)

An error is relative to the published figure and signed. A difference is never claimed from fewer repetitions than could
show one, and "no difference" is said where that is what the data says.
"""
