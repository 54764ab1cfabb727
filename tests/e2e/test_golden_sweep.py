"""The result of a small sweep under the virtual clock, value by value as it was recorded, on any machine."""

import json
from pathlib import Path

import pytest

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.mark.timeout(120)
def test_a_small_sweep_gives_what_was_recorded(launch, tmp_path):
    run = launch((GOLDEN / "small-sweep.yaml").read_text(), "--out", str(tmp_path / "out"), verb="sweep")
    assert run.wait() == 0, run.err()
    recorded = [json.loads(line) for line in (GOLDEN / "small-sweep.jsonl").open()]
    found = [json.loads(line) for line in (tmp_path / "out" / "cells.jsonl").open()]
    assert [record["cell"] for record in found] == [record["cell"] for record in recorded]
    for now, before in zip(found, recorded, strict=True):
        del now["run"]
        assert now["row"] == before["row"], now["cell"]
        assert now == before, now["cell"]
