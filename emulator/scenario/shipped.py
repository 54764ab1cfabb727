"""The host profiles that come with the emulator: `scenarios/profiles/` beside the package."""

from pathlib import Path

from emulator.errors import UsageError
from emulator.scenario.text import quoted

PROFILES = Path(__file__).resolve().parents[2] / "scenarios" / "profiles"
REFERENCE = "ryzen-5600x"


def profile_path(written: str) -> Path:
    """A profile as a user names it: a file, or the name of a shipped one. UsageError when it is neither."""
    for path in (Path(written), PROFILES / f"{written}.yaml"):
        if _is_file(path):
            return path
    if not PROFILES.is_dir():
        raise UsageError(f"no profile {quoted(written)}, and there is no {PROFILES}; give the path of a profile")
    shipped = ", ".join(sorted(path.stem for path in PROFILES.glob("*.yaml")))
    raise UsageError(f"no profile {quoted(written)}; give the path of one, or a shipped one: {shipped}")


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long a name
        return False
