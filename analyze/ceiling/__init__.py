"""What the hardware between a server and its storage can do at most, and which part of it binds."""

from .limits import Ceiling, Limit, ceiling
from .path import Path, example, parse_path, read_path

__all__ = ["Ceiling", "Limit", "Path", "ceiling", "example", "parse_path", "read_path"]
