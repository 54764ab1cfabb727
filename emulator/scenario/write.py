"""Plain values as YAML text that reads back as the same values."""

import io
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import RoundTripRepresenter
from ruamel.yaml.scalarstring import DoubleQuotedScalarString

from emulator.scenario.yamlbuild import resolve


def to_yaml(plain: dict[str, Any]) -> str:
    """Block style, one key a line, in the order given."""
    yaml = YAML(typ="rt")
    yaml.Representer = _Representer
    yaml.width = 100_000  # never fold: a folded line reads back with its breaks changed
    stream = io.StringIO()
    yaml.dump(_quoted(plain), stream)
    return stream.getvalue()


class _Representer(RoundTripRepresenter):
    def null(self, _value: None) -> ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:null", "null")


_Representer.add_representer(type(None), _Representer.null)


def _quoted(value: Any) -> Any:
    """Quote whatever is text but would not be read as the same text when plain."""
    if isinstance(value, dict):
        return {_quoted(key): _quoted(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_quoted(item) for item in value]
    if isinstance(value, str) and not _plain(value):
        return DoubleQuotedScalarString(value)
    return value


def _plain(text: str) -> bool:
    safe = text.isascii() and text.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return safe and not text.startswith("-") and isinstance(resolve(text), str)
