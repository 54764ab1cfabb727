"""Is this a cell's record, a sweep's manifest? Files are edited, cut short and mixed up; what is read is checked first.

Only the form: every key that is read has its type, figures are finite and not negative, histograms have buckets that
there are. Whether a figure is right nobody can tell from the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from emulator.report.histogram import BUCKETS

_MOST = 10**18
_NO_FIGURE = "is not a finite number from 0"
_Whole = Annotated[int, Field(strict=True, ge=0, le=_MOST)]


def _is_figure(value: object) -> bool:
    """A number that a measurement can have, or null. Whole numbers too: no float holds every one of them."""
    if value is None:
        return True
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _MOST


def _figure(value: object) -> object:
    if not _is_figure(value):
        raise ValueError(_NO_FIGURE)
    return value


_Figure = Annotated[Any, BeforeValidator(_figure)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _Histogram(_Form):
    n: _Whole
    sum: _Whole
    min: _Whole | None
    max: _Whole | None
    buckets: list[
        Annotated[
            tuple[Annotated[int, Field(ge=0, lt=BUCKETS)], Annotated[int, Field(gt=0, le=_MOST)]], Field(strict=False)
        ]
    ]


class _Run(_Form):
    pass


class _Record(_Form):
    cell: str
    index: _Whole
    rep: _Whole
    seed: _Whole
    variant: str
    nrules: _Whole | None
    tx_usecs: _Figure
    fields: dict[str, Any]
    status: Literal["ok", "failed"]
    verdict: str
    exit_code: int
    row: dict[str, Any] | None
    hist: dict[str, _Histogram | None] | None
    summary: dict[str, Any] | None
    run: _Run

    @model_validator(mode="after")
    def _measured(self) -> _Record:
        if self.status == "ok" and (self.row is None or self.hist is None or self.summary is None):
            raise ValueError("an ok cell has row, hist and summary")
        return self


class _Manifest(_Form):
    plan: list[dict[str, Any]]
    order: list[_Whole] = Field(default_factory=list)
    scenario: dict[str, Any] | None = None
    resumed: list[dict[str, Any]] = Field(default_factory=list)


def record_fault(record: Any, values: tuple[str, ...], histograms: tuple[str, ...]) -> str | None:
    """What is wrong with the form of a record, `row.pps: ...`; None when nothing is.

    values: the columns that a row has; histograms: the names in `hist`.
    """
    fault = _fault(_Record, record)
    if fault is not None or record["status"] != "ok":
        return fault
    row, hist = record["row"], record["hist"]
    faults = [f"row: no '{name}'" for name in values if name not in row]
    faults += [f"hist: no '{name}'" for name in histograms if name not in hist]
    faults += [f"row.{name}: {_NO_FIGURE}" for name in values if not _is_figure(row.get(name))]
    return faults[0] if faults else None


def manifest_fault(manifest: Mapping[str, Any]) -> str | None:
    """What is wrong with the form of a manifest; None when nothing is."""
    return _fault(_Manifest, manifest)


def _fault(form: type[BaseModel], value: Any, where: str = "") -> str | None:
    try:
        form.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = where + ".".join(str(part) for part in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        return f"{place}: {what}" if place else what
    return None
