"""The agents: who enters the kernel, when, and on which CPU.

An agent is a loop body in compiled code, a *duty cycle*: it takes steps for about a millisecond, notes its heartbeat
and returns. Agents know the kernel and their own words in the segment (words.py); they know nothing of each other, of
processes or of messages.
"""
