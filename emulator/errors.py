"""What can go wrong, and the exit code that says so.

Whatever a user can put right is an `EmulatorError`: one line that says what is wrong, where, and what to do. It is
never shown with a traceback. The class carries the exit code, so that whoever raises it has also decided how the
process ends.
"""

from collections.abc import Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """How the process ended; scripts rely on these numbers."""

    OK = 0
    CHECK_FAILED = 1  # an expectation or an identity failed
    USAGE = 2  # usage or scenario error
    AGENT_FAILED = 3  # an agent died or hung
    CANNOT_RUN = 4  # this machine cannot run it, as it stands
    BELOW_TIMING = 5  # done, but the timing verdict is below what the scenario asks for
    INTERRUPTED = 130  # Ctrl-C


class EmulatorError(Exception):
    """An expected failure: its text is one line for the user."""

    exit_code: ExitCode = ExitCode.CANNOT_RUN

    def lines(self) -> list[str]:
        """What belongs on stderr, line by line."""
        return [f"emulator: error: {' '.join(str(self).splitlines())}"]


class UsageError(EmulatorError):
    """The command line does not make sense."""

    exit_code = ExitCode.USAGE


class ScenarioError(EmulatorError):
    """A scenario or a host profile is wrong; one `file:line:column: path.to.key: ...` line for each fault."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))

    def lines(self) -> list[str]:
        """The faults as they are: compilers' form, which editors can jump to."""
        return list(self.problems)


class AgentFailure(EmulatorError):
    """An agent died, hung or never became ready."""

    exit_code = ExitCode.AGENT_FAILED


class CannotRun(EmulatorError):
    """This machine lacks something: memory, CPUs, permissions."""

    exit_code = ExitCode.CANNOT_RUN


class IdentityFailure(EmulatorError):
    """The run ended, but what must always hold did not."""

    exit_code = ExitCode.CHECK_FAILED
