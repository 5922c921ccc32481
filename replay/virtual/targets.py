"""What stands for a disk of a model where a target is wanted."""

from dataclasses import dataclass
from typing import Final

from iotrace.replay.targets.block_device import DeviceFacts
from iotrace.replay.targets.target import Target
from iotrace.schemas.run import TargetFacts

_BLOCK_BYTES: Final = 512


@dataclass(slots=True)
class ModelTarget(Target):
    """What stands for a disk of a model, or for all of it, where a target is wanted: there is nothing to open."""

    @classmethod
    def of(cls, name: str, size_bytes: int) -> "ModelTarget":
        """A target of this size."""
        return cls(
            name=name,
            kind="disk",
            file=-1,
            bytes=size_bytes,
            direct=True,
            writable=False,
            fill=None,
            device_number=-1,
            facts=DeviceFacts("", _BLOCK_BYTES, None, "model", None, None, partition=False),
            filesystem=None,
            block_bytes=_BLOCK_BYTES,
        )

    def close(self) -> None:
        """There is nothing to close."""

    def describe(self) -> TargetFacts:
        """For the manifest: what a model has."""
        return TargetFacts(self.name, "model", self.bytes, logical_block_bytes=self.block_bytes)
