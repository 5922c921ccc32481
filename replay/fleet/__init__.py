"""One load from several machines: their clocks compared, one start, one result of all."""

from .conductor import Conductor, Part, Together
from .generator import Generator
from .merge import merge

__all__ = ["Conductor", "Generator", "Part", "Together", "merge"]
