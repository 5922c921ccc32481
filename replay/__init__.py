"""A recording in, a recording out: plan, scale, address map, target safety, engine."""

import warnings

from ._engine import is_debug_build
from .options import Progress, ReplayOptions
from .plan.scale import parse_scale
from .plan.selection import choose_layer, select
from .run.replay import replay
from .targets.refusals import DirectIoRefusedError, refuse_output_as_target

if is_debug_build():
    warnings.warn(
        "iotrace replays with an engine built without optimisation: its times are wrong", stacklevel=2
    )

__all__ = [
    "DirectIoRefusedError",
    "Progress",
    "ReplayOptions",
    "choose_layer",
    "parse_scale",
    "refuse_output_as_target",
    "replay",
    "select",
]
