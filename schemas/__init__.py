"""The recording: what every room reads and writes, and the only thing rooms share.

A recording is a folder ``NAME.iotrace/`` of Parquet tables and a ``manifest.json``. This room holds its Arrow
schemas, its vocabulary, its manifest, and the ways to open, write and validate one.
"""

from .errors import IotraceError
from .growing import GrowingRecording, OutputError
from .manifest import Alignment, Clock, Manifest, Quality, Source
from .recording import Recording
from .sweep import Sweep, SweepStep, SweepWriter
from .tables import TABLES, conform
from .validation import Flaw, validate
from .vocabulary import LOAD_OPS, IoFlags, Kind, Layer, Op, Role, counted
from .writer import RecordingWriter

__all__ = [
    "LOAD_OPS",
    "TABLES",
    "Alignment",
    "Clock",
    "Flaw",
    "GrowingRecording",
    "IoFlags",
    "IotraceError",
    "Kind",
    "Layer",
    "Manifest",
    "Op",
    "OutputError",
    "Quality",
    "Recording",
    "RecordingWriter",
    "Role",
    "Source",
    "Sweep",
    "SweepStep",
    "SweepWriter",
    "conform",
    "counted",
    "validate",
]
