"""What storage does under synthetic load, one parameter at a time: SQLIO's and DiskSpd's sweep, on this engine."""

from .run import FILE_BYTES, CellOptions, Characterization
from .workload import PRESETS, PROFILES, Cell, Matrix, Series, aligned, kind_text, size_text

__all__ = [
    "FILE_BYTES", "PRESETS", "PROFILES", "Cell", "CellOptions", "Characterization", "Matrix", "Series", "aligned",
    "kind_text", "size_text",
]  # fmt: skip
