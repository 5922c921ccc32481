"""What the units of times and sizes come to in those that are stored: nanoseconds and bytes."""

from typing import Final

SECOND_NS: Final = 1_000_000_000
DAY_NS: Final = 86_400 * SECOND_NS
FILETIME_1970: Final = 116_444_736_000_000_000
"""Windows' file time of 1970: tenths of a microsecond since 1601 (documentation of FILETIME)."""

KIB: Final = 1 << 10
MIB: Final = 1 << 20
SECTOR_BYTES: Final = 512
"""Linux counts disks in these, whatever the disk's own are (Documentation/block/stat.rst)."""
