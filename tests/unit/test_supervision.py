"""Supervision of real processes, on a clock that the test turns."""

import contextlib
import os
import select
import signal
import subprocess
import sys

import pytest

from emulator.runtime.host import process_start_time, read_stat
from emulator.runtime.supervision import (
    AgentHandle,
    Failure,
    ParentWatch,
    Process,
    Supervisor,
    exit_cause,
    terminate,
)

SECOND = 10**9
PATIENCE_S = 20.0

SLEEPER = "import sys; print(flush=True); sys.stdin.read()"  # ends when its stdin is closed
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"


@pytest.fixture
def start():
    """Start a child that runs some Python and has printed a line."""
    children = []

    def start(code: str, *args: str) -> subprocess.Popen:
        child = subprocess.Popen(
            [sys.executable, "-c", code, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        children.append(child)
        child.stdout.readline()
        return child

    yield start
    for child in children:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


class Watched:
    """A child as the supervisor sees it, with a heartbeat that the test gives."""

    def __init__(self, child: subprocess.Popen, *, reaped: bool = True) -> None:
        self.child = child
        self.beat_ns = 0
        self.handle = AgentHandle(
            name=f"napi-{child.pid}",
            role="napi",
            pid=child.pid,
            start_ticks=process_start_time(child.pid),
            read_heartbeat=lambda: self.beat_ns,
            exit_code=child.poll if reaped else lambda: None,
        )


def wait_for_state(pid: int, states: str) -> None:
    while read_stat(pid).state not in states:
        os.sched_yield()


def run_on(supervisor: Supervisor, begin_s: float, end_s: float, watched: Watched | None = None) -> list[Failure]:
    """Ticks of a tenth of a second; with ``watched`` its heart beats."""
    failures = []
    for tenth in range(int(begin_s * 10), int(end_s * 10) + 1):
        now_ns = tenth * SECOND // 10
        if watched is not None:
            watched.beat_ns = now_ns
        failures += supervisor.tick(now_ns)
    return failures


def test_an_agent_whose_heart_beats_is_alive(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    assert run_on(supervisor, 0, 60, watched) == []
    assert supervisor.notes == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_killed_agent_is_reported_once_with_its_signal(start, number):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    assert run_on(supervisor, 0, 2, watched) == []
    watched.child.send_signal(number)
    watched.child.wait()
    [failure] = supervisor.tick(2 * SECOND + SECOND // 2)
    assert failure.kind == "exited"
    assert failure.cause == f"killed by {number.name} ({number.value})"
    assert failure.time_s == 2.5
    assert failure.heartbeat_age_s == 0.5
    assert str(failure) == (
        f"agent napi-{watched.child.pid} (napi, pid {watched.child.pid}): killed by {number.name} ({number.value}), "
        "2.500 s into the run, last heartbeat 500.0 ms before"
    )
    assert run_on(supervisor, 2.6, 9) == []


def test_an_agent_that_ends_by_itself_has_failed_unless_told_to(start):
    watched, other = Watched(start(SLEEPER)), Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle, other.handle], 0)
    watched.child.stdin.close()
    watched.child.wait()
    [failure] = supervisor.tick(1)
    assert failure.cause == "exited with status 0"
    supervisor.expect_exit = True
    other.child.stdin.close()
    other.child.wait()
    assert supervisor.tick(2) == []


def test_told_to_end_does_not_excuse_a_crash(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    supervisor.expect_exit = True
    watched.child.kill()
    watched.child.wait()
    [failure] = supervisor.tick(1)
    assert "SIGKILL" in failure.cause


def test_an_agent_without_heartbeat_hangs(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    assert run_on(supervisor, 0, 1, watched) == []
    assert run_on(supervisor, 1.1, 3.0) == []
    [failure] = run_on(supervisor, 3.1, 10)
    assert failure.kind == "hung"
    assert failure.cause.startswith("hung (process state ")
    assert failure.time_s == pytest.approx(3.1)
    assert failure.heartbeat_age_s == pytest.approx(2.1)


def test_an_agent_that_never_had_a_heartbeat_hangs_and_says_so(start):
    supervisor = Supervisor([Watched(start(SLEEPER)).handle], 0)
    [failure] = run_on(supervisor, 0, 10)
    assert failure.heartbeat_age_s is None
    assert str(failure).endswith("into the run, without a heartbeat")


def test_time_counts_from_the_beginning_of_the_run(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    assert run_on(supervisor, 0, 1.9) == []
    supervisor.begin(100 * SECOND)
    assert run_on(supervisor, 100, 101.9) == []
    [failure] = run_on(supervisor, 102, 104)
    assert failure.time_s == pytest.approx(2.1)


@pytest.mark.parametrize("limit_s", [0.5, 5.0])
def test_a_stopped_agent_is_told_from_a_hung_one(start, limit_s):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0, hang_limit_s=limit_s)
    run_on(supervisor, 0, 1, watched)
    watched.child.send_signal(signal.SIGSTOP)
    wait_for_state(watched.child.pid, "T")
    [failure] = run_on(supervisor, 1.1, 9)
    assert failure.kind == "stopped"
    assert failure.cause == "stopped by a signal (SIGSTOP)"
    assert failure.heartbeat_age_s == pytest.approx(limit_s + 0.1)


def test_an_agent_that_is_stopped_for_a_moment_goes_on_with_a_note(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    run_on(supervisor, 0, 1, watched)
    watched.child.send_signal(signal.SIGSTOP)
    wait_for_state(watched.child.pid, "T")
    assert run_on(supervisor, 1.1, 2) == []
    watched.child.send_signal(signal.SIGCONT)
    wait_for_state(watched.child.pid, "SR")
    assert run_on(supervisor, 2.1, 10, watched) == []
    assert supervisor.notes == [f"agent napi-{watched.child.pid} was stopped for about 1.0 s"]


def test_a_launcher_that_was_stopped_blames_nobody(start):
    watched = Watched(start(SLEEPER))
    supervisor = Supervisor([watched.handle], 0)
    run_on(supervisor, 0, 1, watched)
    assert supervisor.tick(int(4.2 * SECOND)) == []
    assert supervisor.notes == ["launcher was stopped for 3.2 s, 4.2 s into the run"]
    assert run_on(supervisor, 4.3, 6.0) == []
    [failure] = run_on(supervisor, 6.1, 9)  # but whoever stays silent is hung all the same
    assert failure.kind == "hung"


def test_a_launcher_that_always_comes_late_finds_a_hung_agent_all_the_same(start):
    supervisor = Supervisor([Watched(start(SLEEPER)).handle], 0)
    failures = [failure for tick in range(1, 60) for failure in supervisor.tick(tick * 2 * SECOND)]
    assert [failure.kind for failure in failures] == ["hung"]


def test_an_agent_that_is_gone_without_an_exit_code_is_found(start):
    watched = Watched(start(SLEEPER), reaped=False)  # as when the fork server died with the code
    supervisor = Supervisor([watched.handle], 0)
    run_on(supervisor, 0, 1, watched)
    watched.child.kill()
    os.waitid(os.P_PID, watched.child.pid, os.WEXITED | os.WNOWAIT)
    [failure] = run_on(supervisor, 1.1, 2, watched)
    assert failure.cause == "gone, with an exit status that is not known"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with status 0"),
        (3, "exited with status 3"),
        (-9, "killed by SIGKILL (9)"),
        (-99, "killed by signal 99"),
    ],
)
def test_exit_codes_in_words(code, words):
    assert exit_cause(code) == words


# -- ending them


def test_an_agent_that_listens_is_not_forced(start):
    watched = Watched(start(SLEEPER))
    assert terminate([watched.handle], watched.child.stdin.close, ask_s=PATIENCE_S) == []
    assert watched.child.wait() == 0


def test_a_stopped_agent_is_continued_so_that_it_can_listen(start):
    watched = Watched(start(SLEEPER))
    watched.child.send_signal(signal.SIGSTOP)
    wait_for_state(watched.child.pid, "T")
    assert terminate([watched.handle], watched.child.stdin.close, ask_s=PATIENCE_S) == []
    assert watched.child.wait() == 0


def test_who_does_not_listen_is_terminated(start):
    deaf = Watched(start(SLEEPER))
    lines = terminate([deaf.handle], lambda: None, ask_s=0.05, term_s=PATIENCE_S)
    assert lines == [f"agent {deaf.handle.name} had to be ended by SIGTERM"]
    assert deaf.child.wait() == -signal.SIGTERM


def test_who_ignores_sigterm_is_killed(start):
    stubborn = Watched(start(STUBBORN))
    lines = terminate([stubborn.handle], lambda: None, ask_s=0.05, term_s=0.05, kill_s=PATIENCE_S)
    assert lines == [f"agent {stubborn.handle.name} had to be ended by SIGKILL"]
    assert stubborn.child.wait() == -signal.SIGKILL


def test_an_agent_that_is_gone_already_is_no_trouble(start):
    watched = Watched(start(SLEEPER))
    watched.child.kill()
    watched.child.wait()
    assert terminate([watched.handle], lambda: None) == []


@pytest.mark.parametrize("with_pidfd", [True, False])
def test_a_reused_pid_is_never_hit(start, monkeypatch, with_pidfd):
    if not with_pidfd:
        monkeypatch.delattr(os, "pidfd_open")
    child = start(SLEEPER)
    with Process(child.pid, process_start_time(child.pid) - 1) as another:
        assert another.has_ended()
        assert not another.send(signal.SIGKILL)
    with Process(child.pid, process_start_time(child.pid)) as same:
        assert not same.has_ended()
        assert same.send(signal.SIGTERM)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert same.has_ended()  # a zombie
        assert not same.send(signal.SIGKILL)
        child.wait()
        assert same.has_ended()
    same.close()
    assert child.returncode == -signal.SIGTERM


# -- ending with the launcher

PARENT = """
import os, subprocess, sys, time
from emulator.runtime.host import process_start_time
me = os.getpid()
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(me), str(process_start_time(me))],
                         stdout=subprocess.PIPE, text=True)
print(child.stdout.readline().strip(), flush=True)
time.sleep(600)
"""
DIES_WITH_IT = """
import os, sys, time
from emulator.runtime.supervision import die_with_parent
die_with_parent(int(sys.argv[1]), int(sys.argv[2]))
print(os.getpid(), flush=True)
time.sleep(600)
"""
WATCHES_IT = """
import os, sys, time
from emulator.runtime.supervision import ParentWatch
watch = ParentWatch(int(sys.argv[1]), int(sys.argv[2]))
print(os.getpid(), flush=True)
while True:
    watch()
    time.sleep(0.01)
"""


@pytest.mark.parametrize("agent", [DIES_WITH_IT, WATCHES_IT], ids=["signal", "watch"])
def test_an_agent_ends_with_its_launcher(agent):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, agent], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    pidfd = os.pidfd_open(pid)
    try:
        parent.kill()
        parent.wait()
        assert select.select([pidfd], [], [], PATIENCE_S)[0], "the agent lives on"
    finally:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.close(pidfd)
        parent.stdout.close()


def test_an_agent_whose_launcher_is_gone_already_ends_at_once():
    code = DIES_WITH_IT.replace("print(", "raise SystemExit(")
    done = subprocess.run([sys.executable, "-c", code, str(os.getpid()), "1"], check=False)
    assert done.returncode == -signal.SIGKILL


def test_a_stopped_launcher_is_not_gone(start):
    child = start(SLEEPER)
    watch = ParentWatch(child.pid, process_start_time(child.pid))
    child.send_signal(signal.SIGSTOP)
    wait_for_state(child.pid, "T")
    assert not watch.is_gone()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watch.is_gone()
