"""Which tests may be skipped on a machine that was set up for all of them (``make test-deps`` ran as root).

A skipped test did not run. With ``IOTRACE_NO_SKIPS=1``, as in `.ci/run`, every skip fails the run whose reason is not
in `ALLOWED`; the others are listed with their reasons at the end, as in any run.
"""

import re
from typing import Final

import pytest

VARIABLE: Final = "IOTRACE_NO_SKIPS"

ALLOWED: Final = {
    r"shared/samples": "real traces of others lie beside the checkout, not in it",
    r"Windows agent|iotrace-agent|\.NET": "the Windows agent needs an SDK and Wine; make says so as well",
    r"XELITE_DLL names no DLL": "XELite is Microsoft's to hand out, and not every package source has it",
    r"this kernel merged nothing": "whether neighbours are merged is the kernel's choice of the moment",
}
"""Why a test may be skipped all the same, by a pattern of the reason that it gives."""


def unexpected(reasons: list[str]) -> list[str]:
    """The reasons that are not allowed."""
    return [reason for reason in reasons if not any(re.search(pattern, reason) for pattern in ALLOWED)]


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Why a skipped test was skipped, as the test said it."""
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
