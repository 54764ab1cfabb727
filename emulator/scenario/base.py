"""What every model of a scenario shares: frozen, and no key that it does not know."""

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """Immutable, `extra="forbid"`, written with the names of the YAML file."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid", validate_default=False)

    def to_plain(self) -> dict[str, Any]:
        """As YAML writes it: every key, units as text."""
        return self.model_dump(mode="json", by_alias=True)


def settle(model: Strict, field: str, value: object) -> None:
    """Fill in a default that depends on other fields; only for validators, before anyone has seen the model."""
    model.__dict__[field] = value
