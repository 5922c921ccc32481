"""JSON that another process wrote, checked against dataclasses: their fields and types are the contract.

Unknown keys are left out, so that a recording of a later iotrace of the same format version can be read.
"""

import json
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

Count = Annotated[int, Field(ge=0)]
Nanoseconds = Annotated[int, Field(ge=-(1 << 63), lt=1 << 63)]
"""As a column of a recording holds them: 64 bits, signed."""


T = TypeVar("T")


class ContractError(Exception):
    """Data that breaks its contract: ``where`` in it (``clock.start_utc_ns``), and ``what`` is wrong."""

    def __init__(self, problem: ValidationError) -> None:
        """From the first thing that pydantic found."""
        first = problem.errors(include_url=False)[0]
        self.where = ".".join(str(part) for part in first["loc"])
        self.value = first["input"]
        self.is_out_of_range = first["type"] in {
            "greater_than", "greater_than_equal", "less_than", "less_than_equal",
        }  # fmt: skip
        super().__init__(f"{self.where}: {first['msg']}" if self.where else first["msg"])


def load(contract: type[T], data: Any) -> T:  # noqa: ANN401 - JSON
    """``data``, as json.loads gives it, as an object of the dataclass ``contract``. Raises `ContractError`."""
    try:
        # As text: JSON has no tuples and enumerations, which strict checking of Python objects would insist on.
        adapter: TypeAdapter[T] = _adapter(contract)  # type: ignore[arg-type] # every class has a hash
        return adapter.validate_json(json.dumps(data), strict=True)
    except ValidationError as problem:
        raise ContractError(problem) from problem


def json_schema(contract: type) -> dict[str, Any]:
    """The JSON Schema of a contract."""
    return _adapter(contract).json_schema()


@cache
def _adapter(contract: type) -> TypeAdapter[Any]:
    return TypeAdapter(contract)
