"""iotrace where only its plain dependencies are installed: what the extras bring cannot be imported."""

import sys
from importlib import metadata

from packaging.requirements import Requirement

from iotrace.schemas.distribution import DISTRIBUTION


def extras() -> set[str]:
    """Packages that only an extra brings."""
    wanted = [Requirement(one) for one in metadata.requires(DISTRIBUTION) or []]
    plain = {one.name for one in wanted if "extra" not in str(one.marker)}
    return {one.name.lower() for one in wanted} - plain


if __name__ == "__main__":
    for package in extras() - {"libarchive-c"}:
        sys.modules[package] = None  # type: ignore[assignment]  # so that importing it fails
    from iotrace.cli.main import main

    main()
