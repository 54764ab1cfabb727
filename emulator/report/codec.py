"""Frozen dataclasses as plain JSON values, and back.

Arrays become lists; a float that is not a number becomes null. Reading checks names: a missing or an unknown key is an
error, so a file of another version is refused by name rather than half understood.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """What `json.dumps` takes, for a dataclass, an array, or anything made of them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, np.ndarray):
        return [to_plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def from_plain(cls: type[T], plain: Mapping[str, Any]) -> T:
    """The dataclass that `to_plain` was given; ValueError when the names are not its own."""
    if not isinstance(plain, Mapping):
        raise ValueError(f"{cls.__name__}: expected a mapping, got {type(plain).__name__}")
    fields = {f.name: f for f in dataclasses.fields(typing.cast(Any, cls))}
    required = {
        f.name for f in fields.values() if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    }
    unknown, missing = sorted(set(plain) - set(fields)), sorted(required - set(plain))
    if unknown or missing:
        raise ValueError(f"{cls.__name__}: unknown keys {unknown}, missing keys {missing}")
    hints = typing.get_type_hints(cls)
    dtypes = {name: f.metadata.get("dtype", "f8") for name, f in fields.items()}
    return cls(**{name: _read(hints[name], value, dtypes[name]) for name, value in plain.items()})


def _read(hint: Any, value: Any, dtype: str) -> Any:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType or origin is typing.Union:
        if value is None:
            return None
        kinds = [a for a in args if a is not type(None)]
        return _read(kinds[0], value, dtype) if len(kinds) == 1 else value
    if dataclasses.is_dataclass(hint):
        return from_plain(typing.cast(Any, hint), value)
    if hint is np.ndarray or origin is np.ndarray:
        return np.array([math.nan if v is None else v for v in value], dtype=dtype)
    if origin in (list, tuple):
        return origin(_read(args[0], item, dtype) for item in value)
    if origin is dict:
        return {key: _read(args[1], item, dtype) for key, item in value.items()}
    return value
