"""The WPR profile is XML after the documented schema, and records what the logman sessions record."""

from xml.etree import ElementTree as ET

import pytest

from .conftest import plan_of, text_of

# Children of each element in the order that the schema demands.
ORDER = {
    "Profiles": ["SystemCollector", "EventCollector", "SystemProvider", "EventProvider", "Profile"],
    "SystemCollector": ["BufferSize", "Buffers", "StackCaching", "MaximumFileSize"],
    "EventCollector": ["BufferSize", "Buffers", "StackCaching", "MaximumFileSize"],
    "Collectors": ["SystemCollectorId", "EventCollectorId"],
}


def tree_of(variant):
    return ET.fromstring(text_of(plan_of(variant), "kernel.wprp"))


@pytest.mark.parametrize("variant", ["default", "everything", "windows-only"])
def test_the_profile_is_well_formed(variant):
    root = tree_of(variant)
    assert (root.tag, root.get("Version")) == ("WindowsPerformanceRecorder", "1.0")
    for element in root.iter():
        if order := ORDER.get(element.tag):
            positions = [order.index(child.tag) for child in element]
            assert positions == sorted(positions), element.tag
    profiles = root.findall(".//Profile")
    # "All profiles must have both a file and a memory version in the same .wprp file", of one name.
    assert {profile.get("LoggingMode") for profile in profiles} == {"File", "Memory"}
    for profile in profiles:
        assert profile.get("Id") == ".".join(
            profile.get(key) for key in ("Name", "DetailLevel", "LoggingMode")
        )
    defined = {element.get("Id") for element in root.iter() if element.get("Id")}
    used = {element.get("Value") for element in root.iter() if element.tag.endswith("Id")}
    assert used
    assert used <= defined
    assert [element.get("Name") for element in root.iter("SystemCollector")] == ["NT Kernel Logger"]


def test_it_records_what_the_sessions_record_within_the_same_limits():
    plan, root = plan_of("everything"), tree_of("everything")
    system, storport = ({word.get("Value") for word in provider.iter("Keyword")} for provider in (
        root.find(".//SystemProvider"), root.find(".//EventProvider")))  # fmt: skip
    assert system == {"ProcessThread", "DiskIO", "Filename", "FileIO", "FileIOInit"}
    assert storport == {"0x21F00000"}
    assert "'0x21F00000'" in text_of(plan, "start.ps1")
    limits = [(size.get("Value"), size.get("FileMode")) for size in root.iter("MaximumFileSize")]
    assert limits == [(str(plan.budget.limit_mib(name)), "Circular") for name in ("kernel", "storport")]


def test_the_disk_alone_takes_no_file_operations():
    keywords = {word.get("Value") for word in tree_of("default").iter("Keyword")}
    assert keywords == {"ProcessThread", "DiskIO", "Filename"}
