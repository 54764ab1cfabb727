"""The real command in processes of its own, for whichever folder needs it; nothing of it is left behind by a test."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

_COMPILE_S = 240  # the first run of a new version compiles
_STEP_S = 60


@dataclass
class Launch:
    """One `emulator` process, leader of its own session, with its output in files: a pipe could be held by orphans."""

    process: subprocess.Popen
    stdout: Path
    stderr: Path
    results: Path
    base: Path = field(default_factory=lambda: Path("/dev/shm") / f"veth-emulator-{os.geteuid()}")

    @property
    def pid(self):
        return self.process.pid

    def wait(self, timeout_s=_STEP_S):
        """The exit code."""
        return self.process.wait(timeout_s)

    def out(self):
        return self.stdout.read_text()

    def err(self):
        return self.stderr.read_text()

    def document(self):
        """summary.json of the results directory."""
        return json.loads((self.results / "summary.json").read_text())

    def run_dirs(self):
        """What the launcher has in its base now."""
        return sorted(self.base.glob(f"run-{self.pid}-*"))

    def processes(self):
        """Living processes of the session: {pid: command}."""
        return {pid: _command(pid) for pid in _session(self.pid)}

    def child(self, module):
        """Pid of the launcher's helper that runs ``module``."""
        (pid,) = [pid for pid in _session(self.pid) if _parent(pid) == self.pid and f"{module} " in _command(pid)]
        return pid

    def running(self, after_s=0.0):
        """Wait until agents have run for ``after_s``; an object with `seats`, `pids` by agent's name, and `run_dir`."""
        from emulator.runtime.segment import Segment

        deadline = time.monotonic() + _STEP_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for run_dir in self.run_dirs():
                with contextlib.suppress(Exception):  # not there yet, not published yet, gone already
                    plan = json.loads((run_dir / "plan.json").read_text())
                    view = Segment.attach(run_dir, writable=False).view
                    words = [view.agents[index] for index in range(len(plan["seats"]))]
                    start_ns = int(view.net.params.start_ns)
                    if start_ns and max(int(w.heartbeat_ns) for w in words) >= start_ns + after_s * 1e9:
                        names = [seat["name"] for seat in plan["seats"]]
                        pids = dict(zip(names, (int(w.pid) for w in words), strict=True))
                        return SimpleNamespace(run_dir=run_dir, pids=pids, view=view)
            time.sleep(0.005)
        raise AssertionError(f"never ran: {self.err()}")

    def left(self, timeout_s=5.0):
        """Processes that are still there after a while; it is looked at until there are none."""
        deadline = time.monotonic() + timeout_s
        while (found := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        return found

    def destroy(self):
        for pid in [*_session(self.pid), self.pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_STEP_S)


@pytest.fixture(scope="session")
def own_import_path():
    """Subprocesses import the sources that these tests import."""
    import emulator

    source = str(Path(emulator.__file__).parent.parent)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = source if before is None else f"{source}{os.pathsep}{before}"
    yield
    if before is None:
        del os.environ["PYTHONPATH"]
    else:
        os.environ["PYTHONPATH"] = before


@pytest.fixture(scope="session")
def compiled(own_import_path):
    """Compile once, before any test counts its seconds."""
    code = "from emulator.runtime.compiled import ensure_compiled; ensure_compiled(lambda *_: None)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=_COMPILE_S, start_new_session=True)


@pytest.fixture
def launch(tmp_path, compiled):
    """``launch(scenario text or path, *arguments)`` starts `emulator run`; all of it ends with the test."""
    launched = []

    def start(scenario, *arguments, verb="run", before=(), **streams):
        number = len(launched)
        path = Path(scenario) if str(scenario).endswith(".yaml") else tmp_path / f"scenario{number}.yaml"
        if not str(scenario).endswith(".yaml"):
            path.write_text(scenario)
        results = tmp_path / f"results{number}"
        stdout, stderr = tmp_path / f"stdout{number}", tmp_path / f"stderr{number}"
        command = [*before, sys.executable, "-m", "emulator", verb, str(path)]
        if verb == "run" and "--out" not in arguments:
            command += ["--out", str(results)]
        with stdout.open("w") as out, stderr.open("w") as err:
            given = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err, **streams}
            process = subprocess.Popen(
                [*command, *arguments],
                start_new_session=True,
                cwd=tmp_path,
                preexec_fn=_as_from_a_terminal,
                **given,
            )
        launched.append(Launch(process, stdout, stderr, results))
        return launched[-1]

    yield start
    for one in launched:
        one.destroy()


def _as_from_a_terminal():
    """A shell without job control starts what is in its background with SIGINT ignored, and that is inherited."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _session(session):
    """Pids of a session; not those that are dead, or have given their memory back already."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (path / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX" and _command(int(path.name)):
                found.append(int(path.name))
    return found


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
