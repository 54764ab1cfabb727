"""Files of recorded traces: reading them, telling the families apart, choosing the lines of one kernel."""

from __future__ import annotations

import gzip
import json
import lzma
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

OLDEST_FOLLOWED = (7, 0)
_PLAIN_VERSION = re.compile(r"\d+(\.\d+)*")

Trace = dict[str, Any]


class MalformedError(Exception):
    """A trace that does not follow the format, or that asks for more than the emulated kernel can hold."""


def read_text(path: Path) -> str:
    """Text of a file, decompressed according to its first bytes."""
    raw = path.read_bytes()
    for magic, decompress in _COMPRESSED.items():
        if raw.startswith(magic):
            try:
                raw = decompress(raw)
            except (lzma.LZMAError, zlib.error, EOFError) as error:
                raise ValueError(f"cannot be decompressed: {error}") from None
            break
    return raw.decode()


def _unzstd(raw: bytes) -> bytes:
    for module in ("compression.zstd", "zstandard"):
        try:
            library = __import__(module, fromlist=["decompress"])
        except ImportError:
            continue
        if module == "zstandard":
            return bytes(library.ZstdDecompressor().decompressobj().decompress(raw))
        return bytes(library.decompress(raw))
    raise ValueError("zstd needs Python 3.14 or the zstandard package")


_COMPRESSED: dict[bytes, Callable[[bytes], bytes]] = {
    b"\xfd7zXZ\x00": lzma.decompress,
    b"\x1f\x8b": gzip.decompress,
    b"\x28\xb5\x2f\xfd": _unzstd,
}


def parse_line(line: str) -> Trace:
    """One trace, its frame checked."""
    try:
        trace = json.loads(line)
    except json.JSONDecodeError as error:
        raise MalformedError(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedError("not JSON that can be read: nested too deeply") from None
    if not isinstance(trace, dict):
        raise MalformedError("a trace is a JSON object")
    ops = trace.get("ops")
    if not isinstance(ops, list) or not all(isinstance(op, list) and op and isinstance(op[0], str) for op in ops):
        raise MalformedError("'ops' is not a list of operations")
    if trace.get("n_ops", len(ops)) != len(ops):
        raise MalformedError(f"n_ops is {trace['n_ops']}, but there are {len(ops)} operations")
    variants = trace.get("variants", [])
    if not isinstance(variants, list) or not all(isinstance(name, str) for name in variants):
        raise MalformedError("'variants' is not a list of names")
    return trace


def family_of(trace: Trace) -> str:
    """What a trace is about, from what it contains."""
    if "hold_time" in trace and "jiffies0" in trace:
        return "dql"
    params = trace.get("params")
    if isinstance(params, dict):
        if params.get("kind") in ("pfifo", "bfifo", "pfifo_head_drop", "pfifo_fast"):
            return "fifo"
        if "divisor" in params:
            return "sfq"
        if "target" in params:
            return "fq_codel" if "flows" in params else "codel"
    elif "size" in trace:
        return "ptr_ring"
    raise MalformedError("unknown family of traces")


def _version(name: str) -> tuple[int, ...] | None:
    return tuple(int(part) for part in name.split(".")) if _PLAIN_VERSION.fullmatch(name) else None


def versions(trace: Trace) -> set[tuple[int, ...]]:
    return {version for name in trace.get("variants", []) if (version := _version(name)) is not None}


def is_followed(trace: Trace, newest: tuple[int, ...] | None) -> bool:
    """Whether a trace is to be replayed, ``newest`` being the newest version named in its file."""
    if "variants" not in trace:
        return True
    return newest is not None and newest >= OLDEST_FOLLOWED and newest in versions(trace)
