"""A figure with its uncertainty."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its 95 % interval."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Estimate":
        """The same estimate in another unit."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor)

    def to_dict(self) -> dict[str, float]:
        """Plain data for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}
