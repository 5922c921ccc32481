"""Answers for programs: the figures themselves, unrounded, under a name that says what to expect."""

from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any


def as_json(name: str, *parts: Any) -> dict[str, Any]:  # noqa: ANN401 - dataclasses and dictionaries of anything
    """One object of all ``parts``, in their order, with the ``schema`` it follows: ``iotrace.describe/1``."""
    merged: dict[str, Any] = {"schema": f"iotrace.{name}/1"}
    for part in parts:
        merged |= plain(part)
    return merged


def plain(value: Any) -> Any:  # noqa: ANN401
    """Dataclasses as dictionaries of their fields, or as their ``to_dict`` gives them; tuples as lists."""
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return value.value if isinstance(value, Enum) else value
