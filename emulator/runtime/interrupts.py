"""The user's requests to stop: SIGINT (Ctrl-C), SIGTERM, SIGHUP (a closed terminal)."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Interrupts:
    """Counted by a signal handler. While ``immediate`` the first one ends everything, as nothing has been measured."""

    count: int = 0
    immediate: bool = True


@contextlib.contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Count the requests instead of dying of them."""
    interrupts = Interrupts()

    def note(_number: int, _frame: object) -> None:
        interrupts.count += 1
        if interrupts.immediate:
            raise KeyboardInterrupt

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield interrupts
    finally:
        interrupts.immediate = False
        for number, handler in before.items():  # who has asked once need not interrupt the interpreter's end as well
            signal.signal(number, signal.SIG_IGN if interrupts.count else handler)
