"""What storage arrays report of themselves."""

from typing import Final

from iotrace.capture.formats.format import TEXT, Certainty, Entry, entry

FORMATS: Final[tuple[Entry, ...]] = (
    entry("array-csv", f"{__name__}.csv_files:FORMAT", TEXT, words="table of a storage array's volumes"),
    entry(
        "ontap",
        f"{__name__}.ontap_polls:FORMAT",
        (b"<instance-data>",),
        r"\d\.xml\Z",
        words="poll of NetApp ONTAP",
        certainty=Certainty.CERTAIN,
    ),
)
