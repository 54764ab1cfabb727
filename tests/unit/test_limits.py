"""Limits of the shell that a run could not live with are named before it starts."""

import resource

import pytest

from emulator.errors import CannotRun
from emulator.runtime import limits


@pytest.mark.parametrize(
    ("limit", "value", "said"),
    [
        (resource.RLIMIT_NOFILE, 20, "may open 20 files here, a run needs 64; raise it: ulimit -n"),
        (resource.RLIMIT_AS, 300_000_000, "may use 300 MB of addresses here, a run needs 1500 MB"),
    ],
)
def test_too_little_is_said(monkeypatch, limit, value, said):
    real = resource.getrlimit
    monkeypatch.setattr(resource, "getrlimit", lambda which: (value, value) if which == limit else real(which))
    with pytest.raises(CannotRun, match=said):
        limits.check_limits()


def test_no_limit_is_enough(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    limits.check_limits()
