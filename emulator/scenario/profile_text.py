"""A host profile as YAML that a person can read: a comment above every key, and one at the top that says where it is
from.

The comment of a key is its field's own text in `profile.HostProfile`, unless the writer has something better to say:
how it was measured, how far the measurements spread. What is written reads back as the same profile.
"""

import textwrap
from collections.abc import Mapping, Sequence

from emulator.scenario.profile import HostProfile
from emulator.scenario.text import printable
from emulator.scenario.write import to_yaml

_WIDTH = 120


def profile_text(profile: HostProfile, header: Sequence[str] = (), comments: Mapping[str, str] | None = None) -> str:
    """The file. ``header``: its first lines, kept as they are; ``comments``: key to a text other than the field's."""
    own = {} if comments is None else comments
    head = "".join(f"# {printable(line)}".rstrip() + "\n" for line in header)
    return head + "".join(_entry(profile, key, own.get(key)) for key in profile.to_plain())


def _entry(profile: HostProfile, key: str, comment: str | None) -> str:
    text = comment or HostProfile.model_fields[key].description or key
    lines = textwrap.wrap(printable(" ".join(text.split())), _WIDTH - 2, break_long_words=False)
    value = profile.to_plain()[key]
    if isinstance(value, dict):
        value = {int(number): cost for number, cost in value.items()}
    return "\n" + "".join(f"# {line}\n" for line in lines) + to_yaml({key: value})
