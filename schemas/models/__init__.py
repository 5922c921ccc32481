"""Models of storage: what a model file says, and the catalogue of what people move to.

`iotrace.replay.virtual` plays on them; `iotrace.analyze.ceiling` takes limits from the catalogue. What the file holds
is in docs/virtual-replay.md.
"""

from .catalogue import BySize, Catalogue, catalogue, catalogue_names
from .files import example, parse_model, read_model
from .model import Disk, Limit, Machine, Model, Service
from .words import is_model_target, model_named, model_words, tested_words

__all__ = [
    "BySize",
    "Catalogue",
    "Disk",
    "Limit",
    "Machine",
    "Model",
    "Service",
    "catalogue",
    "catalogue_names",
    "example",
    "is_model_target",
    "model_named",
    "model_words",
    "parse_model",
    "read_model",
    "tested_words",
]
