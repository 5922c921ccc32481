"""Under which name iotrace is installed, and which version of it.

The command and the package that Python imports are iotrace; on the public registry that name is another project's.
"""

from importlib import metadata
from typing import Final

DISTRIBUTION: Final = "iotrace-storage"


def version() -> str:
    """Of the iotrace that runs."""
    return metadata.version(DISTRIBUTION)
