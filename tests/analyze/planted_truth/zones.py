"""How logs name time zones, and what each means: hours east of UTC, or None where the name alone does not tell.

From the IANA time zone database and RFC 5322, section 4.3. Names that several countries use are None.
"""

from typing import Final

OFFSET_HOURS: Final[dict[str, float | None]] = {
    "UTC": 0, "GMT": 0, "Z": 0,
    "+00:00": 0, "+0530": 5.5, "+05:30": 5.5, "-05": -5, "-0500": -5, "-05:00": -5, "+07": 7, "-03": -3, "+12": 12,
    "-0930": -9.5, "+1245": 12.75,
    "JST": 9, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "EDT": -4, "PDT": -7, "MDT": -6, "AEST": 10, "NZST": 12,
    "WIB": 7, "ICT": 7, "HKT": 8, "SAST": 2,
    "Asia/Bangkok": 7, "Asia/Shanghai": 8, "Asia/Kolkata": 5.5,
    "CST": None,  # China, Cuba, North America
    "IST": None,  # India, Ireland, Israel
    "BST": None,  # British Summer Time; Bangladesh
    "AST": None,  # Atlantic; Arabia
    "XYZ": None, "": None,
}  # fmt: skip
"""Zones without daylight saving by name, or with the name of one half of the year: one offset all year."""
