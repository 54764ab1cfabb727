"""Who compiles, and who waits."""

import subprocess
import sys

import pytest

from emulator.runtime import compiled

pytestmark = pytest.mark.timeout(60)

_STUB = """
import sys, time
print(0, 1, "one", flush=True)
time.sleep(0.3)
open(sys.argv[2], "w").write("[]")
open(sys.argv[3], "a").write("compiled\\n")
print(1, 1, "", flush=True)
"""
_LAUNCHER = """
import subprocess, sys
from pathlib import Path
from emulator.runtime import compiled
place = Path(sys.argv[1])
compiled.cache_dir = lambda: place
popen = subprocess.Popen
stub = [sys.executable, str(place / "stub.py"), "0", str(place / "complete.json"), str(place / "log")]
compiled.subprocess.Popen = lambda command, **options: popen(stub, **options)
heard = []
compiled.ensure_compiled(lambda done, total, name: heard.append("announced"), lambda: heard.append("waited"))
print(heard[0] if heard else "found")
"""


def test_one_compiles_and_the_others_wait(tmp_path):
    (tmp_path / "stub.py").write_text(_STUB)
    command = [sys.executable, "-c", _LAUNCHER, str(tmp_path)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    heard = [process.communicate(timeout=50)[0].strip() for process in both]
    assert (tmp_path / "log").read_text() == "compiled\n"
    assert heard.count("announced") == 1
    assert set(heard) <= {"announced", "waited", "found"}


def test_a_compiler_that_dies_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled, "cache_dir", lambda: tmp_path)
    popen = subprocess.Popen
    failing = [sys.executable, "-c", "raise SystemExit('no memory')"]
    monkeypatch.setattr(compiled.subprocess, "Popen", lambda _command, **options: popen(failing, **options))
    with pytest.raises(compiled.CannotRun, match=r"compiling the kernel failed: no memory; is .* writable"):
        compiled.ensure_compiled(lambda *_: None)
    assert not compiled.is_compiled()
    assert [path.name for path in tmp_path.iterdir()] == ["compiling.lock"]
