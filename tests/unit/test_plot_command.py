"""`emulator plot` as a command: which files, what it prints, what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from results import measured, write_run, write_sweep

from emulator.cli import main
from emulator.cli.plot import KINDS as OF_THE_COMMAND
from emulator.report.histogram import histogram_of
from emulator.report.plot.draw import KINDS
from emulator.report.reference import Key

V7, STOCK = Key("v7", 0, 50.0), Key("stock", 0, None)
RTTS = [1_000_000 + 1000 * i for i in range(40)]


@pytest.fixture
def sweep(tmp_path):
    import numpy as np

    cells = {key: [{"pps": 1e6, "rtt_avg_ms": 0.1, "n": 5}] for key in (V7, STOCK)}
    return write_sweep(tmp_path / "sweep", cells, hists=lambda _k, _r: {"rtt_ns": histogram_of(np.array(RTTS))})


@pytest.fixture
def run(tmp_path):
    return write_run(tmp_path / "run", measured("v7", RTTS))


def names(out: str) -> list[str]:
    return [Path(line).name for line in out.splitlines()]


def test_the_command_and_the_package_know_the_same_kinds():
    assert OF_THE_COMMAND == KINDS


def test_a_sweep(sweep, tmp_path, capsys):
    reference = tmp_path / "reference.csv"
    reference.write_text("variant,nrules,tx_usecs,pps\nv7,0,50,1000000\n")
    assert main(["plot", str(sweep), "--reference", str(reference), "--format", "svg"]) == 0
    out, err = capsys.readouterr()
    metrics = ("pps", "rtt_avg_ms")
    expected = [f"{kind}-{m}.svg" for kind in ("lines", "heatmap") for m in metrics] + ["cdf.svg", "reference-pps.svg"]
    assert names(out) == expected
    assert all(Path(line).is_file() and Path(line).parent == sweep / "plots" for line in out.splitlines())
    assert err == "violins: nothing to plot: no cell has a distribution of limit or interval_ns or count\n"
    assert sorted(p.name for p in (sweep / "plots").iterdir()) == sorted(expected)


def test_a_run_in_both_formats(run, tmp_path, capsys):
    assert main(["plot", str(run), "--out", str(tmp_path / "a" / "b"), "--kind", "cdf", "--kind", "violins"]) == 0
    out, err = capsys.readouterr()
    assert names(out) == ["cdf.png", "cdf.svg", "violins.png", "violins.svg"]
    assert err == ""


def test_several_kinds_with_commas(run, tmp_path, capsys):
    command = ["plot", str(run), "--out", str(tmp_path / "o"), "--format", "svg"]
    assert main([*command, "--kind", "violins,cdf", "--kind", "cdf"]) == 0
    assert names(capsys.readouterr().out) == ["violins.svg", "cdf.svg"]
    assert main([*command, "--kind", "cdf,violin"]) == 2
    assert "unknown 'violin', did you mean 'violins'?; allowed: lines, " in capsys.readouterr().err
    assert main([*command, "--kind", ","]) == 2
    assert "unknown ','" in capsys.readouterr().err


def test_what_was_chosen_is_in_the_names_of_the_files(tmp_path, capsys):
    queues = "device.num_tx_queues"
    path = write_sweep(tmp_path / "s", {V7: [{"pps": 1e6}]}, others={queues: 6})
    command = ["plot", str(path), "--format", "svg", "--kind", "lines", "--where", f"{queues}=6"]
    assert main([*command, "--where", "nrules=0", "--where", "variant=v7"]) == 0
    assert names(capsys.readouterr().out) == ["lines-pps-num_tx_queues-6-nrules-0-variant-v7.svg"]
    reference = tmp_path / "reference.csv"
    reference.write_text("case,variant,nrules,tx_usecs,pps\nx,v7,0,50,1000000\ny,v7,0,50,2000000\n")
    more = ["--kind", "reference", "--reference", str(reference), "--where", "case=y"]
    assert main([*command, *more]) == 0
    assert names(capsys.readouterr().out) == ["lines-pps-num_tx_queues-6.svg", "reference-pps-num_tx_queues-6.svg"]


def test_two_results(run, capsys, tmp_path):
    assert (
        main(["plot", str(run), str(run), "--format", "svg", "--metric", "rtt_avg_ms", "--out", str(tmp_path / "o")])
        == 0
    )
    assert names(capsys.readouterr().out) == ["ab-rtt_avg_ms.svg", "cdf.svg"]


def test_a_sweep_csv(tmp_path, capsys):
    path = tmp_path / "mine.csv"
    path.write_text("variant,nrules,tx_usecs,pps\nv7,0,50,1000000\nstock,0,,1000000\n")
    assert main(["plot", str(path), "--format", "svg"]) == 0
    assert names(capsys.readouterr().out) == ["lines-pps.svg", "heatmap-pps.svg"]
    assert main(["plot", str(path), "--kind", "cdf"]) == 2
    assert "a sweep.csv has no distributions; give the sweep's directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ["{sweep}", "--kind", "series"],
            "nothing to plot for 'series': {sweep}: a sweep keeps no time series; give the",
        ),
        (["{run}", "--kind", "lines"], "nothing to plot for 'lines': {run} holds a run; give a sweep"),
        (["{sweep}", "--kind", "reference"], "nothing to plot for 'reference': give the published figures with --ref"),
        (["{run}", "--kind", "ab"], "nothing to plot for 'ab': it shows two results; give A and B"),
        (["{run}", "{run}", "--kind", "series"], "nothing to plot for 'series': it shows one result; give one"),
        (["{run}", "{sweep}", "--kind", "ab"], "give two of one kind"),
        (["{run}", "--kind", "lnes"], "unknown 'lnes', did you mean 'lines'?; allowed: "),
        (["{sweep}", "--kind", "lines", "--metric", "limit_p50"], "nothing to plot for 'lines': no cell has limit_p50"),
        (["{sweep}", "--metric", "limit"], "no metric is called 'limit'"),
        (["{sweep}", "--where", "nrules=1"], "--where nrules='1': {sweep} has none; allowed: 0"),
        (["{run}", "--where", "nrules=1"], "{run}: --where wants a sweep"),
        (["{run}/variants"], "is not the directory of a run's or a sweep's results"),
        (["{run}/nothing.csv"], "cannot read: No such file or directory"),
    ],
)
def test_what_cannot_be_plotted_is_said_in_one_line(argv, said, run, sweep, capsys):
    where = {"run": run, "sweep": sweep}
    assert main(["plot", *(a.format(**where) for a in argv)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said.format(**where) in err


def test_a_place_that_cannot_be_written_is_exit_4_and_leaves_nothing(run, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["plot", str(run), "--kind", "cdf", "--out", str(tmp_path / "file")]) == 4
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.endswith("make room or choose another place with --out DIR\n")


def test_a_full_disk_is_exit_4_and_leaves_nothing(run, tmp_path, capsys, monkeypatch):
    def full(self, data):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert main(["plot", str(run), "--kind", "cdf", "--out", str(tmp_path / "o")]) == 4
    assert "cdf.png: No space left on device; make room" in capsys.readouterr().err
    assert list((tmp_path / "o").iterdir()) == []


def test_damaged_results_are_one_line(run, capsys):
    (run / "variants" / "v7" / "probes.csv").write_text("intended_ns,sent_ns\n1,2\n")
    assert main(["plot", str(run)]) == 2
    assert "results are damaged" in capsys.readouterr().err


def test_matplotlib_is_loaded_only_to_draw_and_files_are_the_same_in_another_process(run, tmp_path):
    script = (
        "import sys\nfrom emulator.cli import main\nmain(['plot', '--help'])\nmain(['plot', 'no-such-thing'])\n"
        "assert not [m for m in ('matplotlib', 'scipy', 'numba') if m in sys.modules]\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for out in ("a", "b"):
        argv = [sys.executable, "-c", script, "plot", str(run), "--kind", "violins", "--out", str(tmp_path / out)]
        done = subprocess.run(
            argv, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONHASHSEED": "random"}
        )
        assert done.returncode == 0, done.stderr
    for name in ("violins.svg", "violins.png"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
