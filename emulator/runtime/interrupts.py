"""How often the user asked to stop."""

from dataclasses import dataclass


@dataclass
class Interrupts:
    """Counted by a signal handler. While ``compiling`` the first one ends everything, as nothing has been measured."""

    count: int = 0
    compiling: bool = False
