"""What iotrace's extras bring, for the hints of commands that lack one.

The hints name the packages, not iotrace itself: the name iotrace is another project's on the public registry, and
there is nothing under our own until it is published.
"""

import re
from collections.abc import Iterator
from importlib import metadata

from iotrace.schemas.distribution import DISTRIBUTION


def extra_with(module: str) -> str:
    """The extra that brings ``module``; empty where none does."""
    package = module.partition(".")[0]
    return next((extra for extra, requirement in _optional() if _name(requirement) == package), "")


def install(extra: str) -> str:
    """The hint that says how to install what ``extra`` brings."""
    wanted = " ".join(f"'{requirement}'" for found, requirement in _optional() if found == extra)
    return f"python3 -m pip install {wanted}, into the environment that iotrace is in"


def _optional() -> Iterator[tuple[str, str]]:
    """Extra and requirement, of all that the extras ask for."""
    for line in metadata.requires(DISTRIBUTION) or []:
        requirement, _, marker = line.partition(";")
        if found := re.search(r"\bextra == ['\"]([\w-]+)['\"]", marker):
            yield found[1], requirement.strip()


def _name(requirement: str) -> str:
    return re.split(r"[^\w-]", requirement, maxsplit=1)[0].lower()
