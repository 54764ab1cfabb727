"""What the launcher and its agents say to each other.

One message is one msgpack map::

    {"v": 1, "seq": 7, "kind": "start", "start_ns": 123456789}
      |        |         |               fields of the kind: all of them, no others
      |        |         one of the classes below, in lower case
      |        grows with every message of one sender; one that does not grow is a replay
      schema version

Whatever is not exactly that is refused by one `ProtocolError`, a line that says what was wrong, and nothing else
happens: too long, nested too deeply, not msgpack, two values for one key, another version, an unknown kind, a key too
few or too many, a wrong type, a number out of range.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields
from types import MappingProxyType
from typing import Any, ClassVar

import msgpack  # type: ignore[import-untyped, unused-ignore]

VERSION = 1
MESSAGE_BYTES_MAX = 64 * 1024
DEPTH_MAX = 8  # of maps and lists inside a message
TEXT_CHARS_MAX = 8 * 1024
_INT64_MAX = 2**63 - 1


class ProtocolError(Exception):
    """A message was refused; its text is one line."""


def _number(low: int, high: int = _INT64_MAX) -> Any:
    return field(metadata={"type": int, "low": low, "high": high})


def _text(low: int = 0, high: int = TEXT_CHARS_MAX) -> Any:
    return field(metadata={"type": str, "low": low, "high": high})


@dataclass(frozen=True)
class Message:
    """Anything that is sent."""

    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class Hello(Message):
    """Agent: here I am. The first message of an agent."""

    kind: ClassVar[str] = "hello"
    role: str = _text(1, 32)
    pid: int = _number(1, 2**31 - 1)
    agent: int = _number(0, 9999)


@dataclass(frozen=True)
class Ready(Message):
    """Agent: attached, compiled code loaded, pinned; waiting for Start."""

    kind: ClassVar[str] = "ready"


@dataclass(frozen=True)
class Start(Message):
    """Launcher: begin at this time of the segment's clock."""

    kind: ClassVar[str] = "start"
    start_ns: int = _number(0)


@dataclass(frozen=True)
class Stop(Message):
    """Launcher: stop at the next step boundary."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True)
class Stopped(Message):
    """Agent: the loop has ended with empty hands, at this time of the segment's clock."""

    kind: ClassVar[str] = "stopped"
    time_ns: int = _number(0)


@dataclass(frozen=True)
class Failed(Message):
    """Agent: I cannot go on, and why."""

    kind: ClassVar[str] = "failed"
    text: str = _text()


@dataclass(frozen=True)
class Ping(Message):
    """Launcher: are you there? Answered by the control thread, not by the loop."""

    kind: ClassVar[str] = "ping"
    token: int = _number(0)


@dataclass(frozen=True)
class Pong(Message):
    """Agent: the answer to the Ping with this token."""

    kind: ClassVar[str] = "pong"
    token: int = _number(0)


@dataclass(frozen=True)
class Error(Message):
    """Either: your last message was refused, nothing was changed. Never answered."""

    kind: ClassVar[str] = "error"
    text: str = _text()


FROM_AGENT: tuple[type[Message], ...] = (Hello, Ready, Stopped, Failed, Pong, Error)
FROM_LAUNCHER: tuple[type[Message], ...] = (Start, Stop, Ping, Error)
KINDS: Mapping[str, type[Message]] = MappingProxyType({one.kind: one for one in (*FROM_AGENT, *FROM_LAUNCHER)})


class Outgoing:
    """Numbers the messages of one sender to one receiver."""

    def __init__(self) -> None:
        self._seq = 0

    def encode(self, message: Message) -> bytes:
        """The bytes to send next."""
        self._seq += 1
        return encode(message, self._seq)


class Incoming:
    """Checks the messages of one sender: kinds that it may send, numbers that grow."""

    def __init__(self, allowed: tuple[type[Message], ...]) -> None:
        self._allowed = allowed
        self._seq = 0

    def decode(self, data: bytes) -> Message:
        """The message; ProtocolError if it is refused, and then nothing has changed."""
        seq, message = _decode(data)
        if not isinstance(message, self._allowed):
            raise ProtocolError(f"a {message.kind} message does not go in this direction")
        if seq <= self._seq:
            raise ProtocolError(f"replayed: number {seq} came after {self._seq}")
        self._seq = seq
        return message


def encode(message: Message, seq: int = 1) -> bytes:
    """The bytes of a message. Text that is too long is cut; anything else out of range is a ProtocolError."""
    body: dict[str, Any] = {"v": VERSION, "seq": seq, "kind": message.kind}
    for one in fields(message):
        body[one.name] = _checked(one, _cut(getattr(message, one.name), one))
    data: bytes = msgpack.packb(body, use_bin_type=True)
    if len(data) > MESSAGE_BYTES_MAX:
        raise ProtocolError(f"a {message.kind} message of {len(data)} bytes is above {MESSAGE_BYTES_MAX}")
    return data


def decode(data: bytes) -> Message:
    """The message that the bytes hold; ProtocolError if they do not hold exactly one."""
    return _decode(data)[1]


def _decode(data: bytes) -> tuple[int, Message]:
    body = _unpack(data)
    if not isinstance(body, dict):
        raise ProtocolError(f"a message is a map, not {_shown(body)}")
    if body.get("v") != VERSION or type(body["v"]) is not int:
        raise ProtocolError(f"version {_shown(body.get('v'))} is not {VERSION}")
    seq = body.get("seq")
    if type(seq) is not int or not 1 <= seq <= _INT64_MAX:
        raise ProtocolError(f"seq {_shown(seq)} is not a number from 1")
    name = body.get("kind")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(f"unknown kind {_shown(name)}")
    return seq, _build(kind, {key: value for key, value in body.items() if key not in ("v", "seq", "kind")})


def _unpack(data: bytes) -> Any:
    if len(data) > MESSAGE_BYTES_MAX:
        raise ProtocolError(f"{len(data)} bytes are above {MESSAGE_BYTES_MAX}")
    try:
        body = msgpack.unpackb(data, raw=False, strict_map_key=True, object_pairs_hook=_unique)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError, msgpack.UnpackException) as error:
        raise ProtocolError(f"not a msgpack message: {_one_line(str(error) or type(error).__name__)}") from None
    _check_depth(body)
    return body


def _unique(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    body = dict(pairs)
    if len(body) != len(pairs):
        raise ProtocolError("two values for one key")
    return body


def _check_depth(body: Any) -> None:
    level = [body]
    for _ in range(DEPTH_MAX + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return
    raise ProtocolError(f"nested more than {DEPTH_MAX} deep")


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _build(kind: type[Message], values: dict[str, Any]) -> Message:
    known = {one.name: one for one in fields(kind)}
    missing, extra = sorted(known.keys() - values.keys()), sorted(map(_shown, values.keys() - known.keys()))
    if missing or extra:
        wrong = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has no {', '.join(extra)}"] * bool(extra)
        raise ProtocolError(_one_line(f"a {kind.kind} message {' and '.join(wrong)}"))
    return kind(**{name: _checked(one, values[name]) for name, one in known.items()})


def _checked(one: "Field[Any]", value: Any) -> Any:
    wanted, low, high = one.metadata["type"], one.metadata["low"], one.metadata["high"]
    if type(value) is not wanted:
        raise ProtocolError(f"{one.name} is {_shown(value)}, not {'a number' if wanted is int else 'text'}")
    size = len(value) if wanted is str else value
    if not low <= size <= high:
        measure = "characters" if wanted is str else ""
        raise ProtocolError(f"{one.name} is {_shown(value)}, out of {low} to {high} {measure}".rstrip())
    return value


def _cut(value: Any, one: "Field[Any]") -> Any:
    """Text as it can be sent: not longer than allowed, without lone surrogates."""
    if isinstance(value, str):
        return value[: one.metadata["high"]].encode("utf-8", "replace").decode()
    return value


def _shown(value: Any) -> str:
    """A peer's value, short and printable."""
    if isinstance(value, dict | list):
        return f"a {'map' if isinstance(value, dict) else 'list'} of {len(value)}"
    return _one_line(ascii(value), 60)


def _one_line(text: str, chars: int = 200) -> str:
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return line if len(line) <= chars else f"{line[:chars]}..."
