"""Answers for programs: what becomes of a dataclass, and that the published schema says the same.

That each command answers as the schema says is checked by every test that runs one with ``--json``
(tests/cli/conftest.py).
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pydantic
import pytest
from packaging.version import Version
from pydantic import ConfigDict, TypeAdapter, ValidationError

import iotrace.cli.main  # noqa: F401 - the commands' answers are known once they are loaded
from iotrace.analyze.present.program import (
    HIDDEN,
    INLINE,
    MaybeNaN,
    ProgramAnswer,
    any_answer,
    figure,
    json_schema_text,
    plain,
    typed_dictionary,
)

ANSWERS = Path(__file__).parents[3] / "schemas" / "answers.schema.json"


@dataclass
class Inner:
    """Something of its own."""

    share: MaybeNaN
    secret: Annotated[int, HIDDEN] = 7

    @figure
    def percent(self) -> float | None:
        """A hundred times as much."""
        return None if self.share != self.share else 100 * self.share


@dataclass
class Outer:
    inner: Annotated[Inner, INLINE]
    others: dict[str, Inner]
    """By name."""
    where: Path


WHOLE = Outer(Inner(0.5), {"a": Inner(float("nan"))}, Path("/a/b"))
EXPECTED = {"share": 0.5, "percent": 50.0, "others": {"a": {"share": None, "percent": None}}, "where": "/a/b"}


def test_fields_and_figures_become_plain_data() -> None:
    assert plain(WHOLE) == EXPECTED


def test_the_types_say_what_plain_data_holds() -> None:
    expected = TypeAdapter(typed_dictionary(Outer))
    assert expected.validate_python(plain(WHOLE)) == EXPECTED
    with pytest.raises(ValidationError, match="percent"):
        expected.validate_python(EXPECTED | {"percent": "half"})
    described = expected.json_schema()["$defs"]["Inner"]
    assert described["description"] == "Something of its own."
    assert described["properties"]["percent"]["description"] == "A hundred times as much."
    assert set(described["properties"]) == {"share", "percent"}


@pytest.mark.skipif(
    Version(pydantic.VERSION) < Version("2.13"), reason="pydantic before 2.13 words JSON schemas differently"
)
def test_the_published_schema_is_current() -> None:
    assert ANSWERS.read_text("utf-8") == json_schema_text(), "run `make schemas`"


def test_every_answer_has_a_name_of_its_own() -> None:
    names = json.loads(ANSWERS.read_text("utf-8"))["discriminator"]["mapping"]
    assert len(names) == len(ProgramAnswer.__subclasses__())
    assert {"iotrace.describe/1", "iotrace.knee/1", "iotrace.incident/1", "iotrace.compare/1"} <= set(names)


def test_an_answer_of_another_shape_is_told() -> None:
    whole = {"schema": "iotrace.validate/1", "path": "x", "whole": True, "findings": []}
    strict = any_answer(ConfigDict(strict=True))
    assert strict.validate_python(whole) == whole
    with pytest.raises(ValidationError, match="whole"):
        strict.validate_python(whole | {"whole": "yes"})
    with pytest.raises(ValidationError, match="findings"):
        strict.validate_python({name: value for name, value in whole.items() if name != "findings"})
