"""Processes that are killed or stopped while a run is going: one verdict, partial results, nothing left behind."""

import os
import re
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.timeout(180)

LONG = """
name: long
host: none
duration: 20s
warmup: 300ms
netfilter: {rules: 2600, mode: burn, rule_cost: 7.7ns}
device: {bql: {variant: v7, tx_usecs: 100us}}
flood: {packet: 64B, rate: max}
ping: {interval: 5ms}
"""
ROLES = {"flood0": "flood", "napi/veth1-0": "napi", "napi/veth0-0": "napi", "ping": "ping", "watchdog": "watchdog"}


def nothing_left(run):
    assert run.left() == {}
    assert run.run_dirs() == []


def only_variant(run):
    (variant,) = run.document()["variants"]
    return variant


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["kill", "stop"])
@pytest.mark.parametrize("agent", ROLES)
def test_an_agent_ends_the_run(launch, agent, number):
    run = launch(LONG)
    pid = run.running(0.4).pids[agent]
    os.kill(pid, number)
    assert run.wait() == 3
    nothing_left(run)
    how = {signal.SIGKILL: r"killed by SIGKILL \(9\)", signal.SIGSTOP: r"stopped by a signal \(SIGSTOP\)"}[number]
    verdict = only_variant(run)["verdict"]
    assert re.fullmatch(
        rf"agent {agent} \({ROLES[agent]}, pid {pid}\): {how}, \d+\.\d{{3}} s into the run, last heartbeat .* before",
        verdict,
    )
    assert only_variant(run)["identities"]["ok"] is not False
    assert not only_variant(run)["complete"]
    shown = " ".join(run.out().split())
    assert f"INCOMPLETE: {verdict}" in shown
    assert "Traceback" not in run.err()


def test_during_warmup(launch):
    run = launch(LONG, "--set", "warmup=10s")
    os.kill(run.running(0.1).pids["napi/veth1-0"], signal.SIGKILL)
    assert run.wait() == 3
    nothing_left(run)
    assert "killed by SIGKILL (9)" in only_variant(run)["verdict"]
    assert only_variant(run)["goodput_pps"] is None


def test_an_agent_that_is_asked_to_end_leaves_with_empty_hands(launch):
    run = launch(LONG)
    os.kill(run.running(0.4).pids["napi/veth1-0"], signal.SIGTERM)
    assert run.wait() == 3
    nothing_left(run)
    assert "killed by SIGTERM (15)" in only_variant(run)["verdict"]
    assert only_variant(run)["identities"]["ok"]


def test_killed_again_and_again_at_any_moment_nobody_hangs(launch):
    """With one packet a duty step and a shared root lock, some of these deaths are inside a critical section."""
    scenario = LONG.replace("rules: 2600", "rules: 0").replace("flood: {", "flood: {threads: 2, flows: 2, ")
    for round_number in range(4):
        run = launch(scenario, "--set", "warmup=0s", "--set", "device.qdisc.kind=sfq")
        victim = ("flood0", "napi/veth1-0")[round_number % 2]
        os.kill(run.running(0.05 + 0.0137 * round_number).pids[victim], signal.SIGKILL)
        assert run.wait(30) == 3
        nothing_left(run)
        assert only_variant(run)["verdict"].startswith(f"agent {victim} ")


def test_the_other_variants_still_run(launch):
    scenario = LONG.replace("duration: 20s", "duration: 1500ms") + "compare: [{name: first}, {name: second}]\n"
    run = launch(scenario)
    os.kill(run.running(0.4).pids["flood0"], signal.SIGKILL)
    assert run.wait() == 3
    nothing_left(run)
    first, second = run.document()["variants"]
    assert (first["complete"], first["exit_code"]) == (False, 3)
    assert (second["complete"], second["exit_code"]) == (True, 0)


def test_the_launcher_is_killed(launch, compiled):
    scenario = LONG.replace("duration: 20s", "duration: 1s") + (
        "compare: [{name: whole}, {name: cut short, duration: 20s}]\n"
    )
    run = launch(scenario)
    first = run.running().run_dir
    while first.exists():
        time.sleep(0.01)
    run_dir = run.running(0.6).run_dir
    os.kill(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    assert run.left() == {}
    assert run.run_dirs() == [run_dir]
    cleaned = subprocess.run(
        [sys.executable, "-m", "emulator", "clean"], capture_output=True, text=True, timeout=60, start_new_session=True
    )
    assert f"removed {run_dir}" in cleaned.stdout
    assert f"what it had measured is in {run.results}" in cleaned.stdout
    assert run.run_dirs() == []
    whole, cut = run.document()["variants"]
    assert (whole["name"], whole["complete"]) == ("whole", True)
    assert (cut["name"], cut["complete"]) == ("cut short", False)
    assert cut["verdict"].startswith("the launcher died ")
    assert cut["identities"]["ok"] is not False
    assert cut["ping"]["received"] > 0


def test_the_launcher_is_stopped_for_a_while(launch):
    run = launch(LONG.replace("duration: 20s", "duration: 3s"))
    run.running(0.4)
    os.kill(run.pid, signal.SIGSTOP)
    time.sleep(1.5)
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait() == 0
    nothing_left(run)
    (note,) = [note for note in only_variant(run)["warnings"] if "launcher" in note]
    assert re.fullmatch(r"launcher was stopped for \d\.\d s, \d\.\d s into the run", note)
    assert only_variant(run)["identities"]["ok"]


def test_an_agent_is_stopped_for_a_moment(launch):
    """Shorter than what counts as hung: the run goes on, and the result says that it has a hole."""
    run = launch(LONG.replace("duration: 20s", "duration: 2s"))
    pid = run.running(0.4).pids["napi/veth1-0"]
    os.kill(pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(pid, signal.SIGCONT)
    assert run.wait() == 0
    nothing_left(run)
    (note,) = only_variant(run)["warnings"]
    assert re.fullmatch(r"agent napi/veth1-0 was stopped for about \d\.\d s", note)
    assert only_variant(run)["identities"]["ok"]


def test_the_launcher_is_stopped_for_good(launch):
    """Its agents do not occupy the CPUs for ever; when it goes on after all, it has its results."""
    run = launch(LONG.replace("duration: 20s", "duration: 300ms"))
    pids = run.running(0.1).pids.values()
    os.kill(run.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 40
    while set(pids) & set(run.processes()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not set(pids) & set(run.processes())
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait() == 0
    nothing_left(run)
    assert any("launcher was stopped" in note for note in only_variant(run)["warnings"])
    assert only_variant(run)["identities"]["ok"]


def test_the_launcher_is_stopped_beyond_the_end(launch):
    """The agents wait for it; what they measured is whole."""
    run = launch(LONG.replace("duration: 20s", "duration: 500ms"))
    run.running(0.4)
    os.kill(run.pid, signal.SIGSTOP)
    time.sleep(2.0)
    os.kill(run.pid, signal.SIGCONT)
    assert run.wait() == 0
    nothing_left(run)
    assert any("launcher was stopped" in note for note in only_variant(run)["warnings"])
    assert only_variant(run)["identities"]["ok"]


def test_the_fork_server_is_killed(launch):
    run = launch(LONG)
    run.running(0.4)
    pid = run.child("multiprocess.forkserver")
    os.kill(pid, signal.SIGKILL)
    assert run.wait() == 3
    nothing_left(run)
    verdict = only_variant(run)["verdict"]
    assert verdict.startswith(f"the fork server (pid {pid}): killed by SIGKILL (9), ")
    assert verdict.endswith("; its agents ended with it")


@pytest.mark.parametrize("module", ["multiprocess.forkserver", "multiprocess.resource_tracker"])
def test_a_helper_is_stopped(launch, module):
    run = launch(LONG.replace("duration: 20s", "duration: 800ms") + "compare: [{name: first}, {name: second}]\n")
    run.running(0.2)
    os.kill(run.child(module), signal.SIGSTOP)
    assert run.wait() == 0
    nothing_left(run)
    assert [v["complete"] for v in run.document()["variants"]] == [True, True]


def test_the_resource_tracker_is_killed(launch):
    run = launch(LONG.replace("duration: 20s", "duration: 800ms") + "compare: [{name: first}, {name: second}]\n")
    run.running(0.2)
    os.kill(run.child("multiprocess.resource_tracker"), signal.SIGKILL)
    assert run.wait() == 0
    nothing_left(run)
    assert "Warning" not in run.err()


def test_the_fork_server_is_stopped_while_it_starts(launch):
    """Ctrl-C does not wait for it."""
    run = launch(LONG)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            os.kill(run.child("multiprocess.forkserver"), signal.SIGSTOP)
            break
        except ValueError:
            time.sleep(0.005)
    time.sleep(1.5)
    os.kill(run.pid, signal.SIGINT)
    assert run.wait() == 130
    nothing_left(run)


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("whole_group", [True, False], ids=["group", "launcher"])
def test_ctrl_c(launch, times, whole_group):
    run = launch(LONG)
    run.running(0.8)
    for _ in range(times):
        (os.killpg if whole_group else os.kill)(run.pid, signal.SIGINT)
        time.sleep(0.02)
    assert run.wait() == 130
    nothing_left(run)
    assert re.fullmatch(r"interrupted after \d+\.\d s of 20 s measured", only_variant(run)["verdict"])
    assert only_variant(run)["identities"]["ok"]
    assert only_variant(run)["ping"]["received"] > 0
    assert "Traceback" not in run.err() + run.out()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_group_is_asked_to_end(launch, number):
    run = launch(LONG)
    run.running(0.6)
    os.killpg(run.pid, number)
    assert run.wait() == 130
    nothing_left(run)
    assert only_variant(run)["verdict"].startswith("interrupted after ")
    assert only_variant(run)["identities"]["ok"]


@pytest.mark.parametrize("delay_s", [0.2, 0.5, 0.8, 1.1, 1.4])
def test_ctrl_c_while_starting(launch, delay_s):
    run = launch(LONG)
    time.sleep(delay_s)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() in (130, -signal.SIGINT)  # the latter before Python itself has started
    nothing_left(run)
    assert "Traceback" not in run.err() + run.out() or delay_s < 0.3


def test_ctrl_c_between_variants_and_in_the_grace(launch):
    scenario = LONG.replace("duration: 20s", "duration: 300ms") + "compare: [{name: first}, {name: second}]\n"
    run = launch(scenario)
    first = run.running().run_dir
    while first.exists():
        time.sleep(0.001)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() == 130
    nothing_left(run)
    assert run.document()["variants"][0]["complete"]


def test_ctrl_c_while_compiling(launch, tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    run = launch(LONG, env=environment)
    deadline = time.monotonic() + 30
    while "compiling" not in run.err() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(run.pid, signal.SIGINT)
    assert run.wait() == 130
    nothing_left(run)
    assert run.err().splitlines()[-1] == "emulator: interrupted before anything was measured"
    assert "Traceback" not in run.err()
