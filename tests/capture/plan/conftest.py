"""Plans that the tests of this folder look at."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from iotrace.capture.plan import PlanOptions
from iotrace.capture.plan.writing import Plan, make_plan

FIXTURES = Path(__file__).parents[2] / "fixtures"


def _build(kind: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{kind}_build", FIXTURES / kind / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


etl_build, xel_build, perfmon_build = _build("etl"), _build("xel"), _build("perfmon")

HOSTILE_INSTANCE = "SQL'01\\IN]ST`$(calc)\N{RIGHT SINGLE QUOTATION MARK}; Stop-Computer #\"%PATH%&"
HOSTILE_FOLDER = "D:\\io'trace $(calc)&;\N{RIGHT SINGLE QUOTATION MARK}"

VARIANTS = {
    "default": PlanOptions(),
    "everything": PlanOptions(
        layers=("sql", "filesystem", "block", "device"),
        sql_instance=HOSTILE_INSTANCE,
        minutes=5,
        iops=150_000,
        folder=HOSTILE_FOLDER,
        counter_format="csv",
    ),
    "windows-only": PlanOptions(layers=("block", "device"), minutes=240, iops=2_000),
    "sql-only": PlanOptions(layers=("sql",), sql_instance="tcp:host,1433"),
}


@cache
def plan_of(variant: str) -> Plan:
    return make_plan(VARIANTS[variant], "iotrace_0a1b2c")


def text_of(plan: Plan, path: str) -> str:
    return plan.files[path].decode("utf-8-sig").replace("\r\n", "\n")


@pytest.fixture(params=VARIANTS)
def plan(request: pytest.FixtureRequest) -> Plan:
    return plan_of(request.param)
