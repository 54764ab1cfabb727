"""Scenarios: YAML text to a frozen, validated model.

    load_scenario("scenarios/dark-buffer.yaml", ["duration=5s"]).variants

One reads it from the outside in: `load` (files, variants, settings), `model` (what a scenario is), `qdiscs`,
`profile` (what things cost), `checks` (what cannot be), `problems` (how a fault becomes one line), `yamltree` (YAML
with places), `units`.
"""

from emulator.scenario.files import load_profile
from emulator.scenario.load import LoadedScenario, check_cpus, load_scenario
from emulator.scenario.model import Scenario
from emulator.scenario.profile import HostProfile
from emulator.scenario.write import to_yaml

__all__ = ["HostProfile", "LoadedScenario", "Scenario", "check_cpus", "load_profile", "load_scenario", "to_yaml"]
