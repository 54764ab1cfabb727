"""Makes network.py and launching.py importable from every folder of tests, and the fixtures of the latter known."""

import sys
from pathlib import Path

HERE = str(Path(__file__).resolve().parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from launching import compiled, launch, own_import_path  # noqa: E402, F401
