"""An emulated kernel in this process, compiled, for properties that must hold whatever is done to it."""

import importlib
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TOOLS = str(Path(__file__).resolve().parents[2] / "tools")

settings.register_profile(
    "deterministic",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("deterministic")


@pytest.fixture(scope="session")
def machine():
    if TOOLS not in sys.path:
        sys.path.insert(0, TOOLS)
    return importlib.import_module("replay.machine").Machine()
