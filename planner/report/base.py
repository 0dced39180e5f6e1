"""What every report is made of."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from planner.quantity import Quantity


class StrictModel(BaseModel):
    """A part of a report: its fields and no others."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    @classmethod
    def like(cls, value: object) -> Self:
        """From a value of the library whose attributes have the names of the fields."""
        return cls.model_validate(value, from_attributes=True)


class QuantityReport(StrictModel):
    """A number with the band that should hold nine of ten cases."""

    value: float
    low: float
    high: float
    basis: Literal["exact", "measured", "calibrated", "estimated"]

    @classmethod
    def of(cls, quantity: Quantity) -> QuantityReport:
        """From the library's value."""
        return cls.model_validate(
            {
                "value": quantity.value,
                "low": quantity.low,
                "high": quantity.high,
                "basis": quantity.basis.label,
            }
        )
