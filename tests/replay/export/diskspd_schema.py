"""The facts of the schema by which DiskSpd 2.2 checks a profile (diskspd.xsd of microsoft/diskspd), in our own words.

An element's entry says what it may hold: a type of text, or children. Children may come in any order, each at most
once, except where a list repeats one of them. `problems` holds a document against that.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.etree import ElementTree as ET

UINT32, UINT64 = 2**32 - 1, 2**64 - 1


@dataclass(frozen=True)
class Number:
    least: int = 0
    most: int = UINT32
    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def allows(self, text: str) -> bool:
        return bool(re.fullmatch(r"\s*\+?[0-9]+\s*", text)) and self.least <= int(text) <= self.most


@dataclass(frozen=True)
class Words:
    of: tuple[str, ...] | None = None

    def allows(self, text: str) -> bool:
        return self.of is None or text in self.of


@dataclass(frozen=True)
class Children:
    of: dict[str, object]
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class ListOf:
    name: str
    entry: object


BOOL = Words(("true", "false", "1", "0"))
SIZE, COUNT, PERCENT, TEXT = Number(most=UINT64), Number(), Number(most=100), Words()

RANDOM_SOURCE = Children({"SizeInBytes": SIZE, "FilePath": TEXT}, required=("SizeInBytes",))
TARGET = Children(
    {
        "Path": TEXT,
        "BlockSize": COUNT,
        "StrideSize": SIZE,
        "InterlockedSequential": BOOL,
        "BaseFileOffset": SIZE,
        "SequentialScan": BOOL,
        "RandomAccess": BOOL,
        "TemporaryFile": BOOL,
        "UseLargePages": BOOL,
        "RequestCount": COUNT,
        "Random": SIZE,
        "RandomRatio": Number(1, 99),
        "DisableAllCache": BOOL,
        "DisableLocalCache": BOOL,
        "DisableOSCache": BOOL,
        "WriteThrough": BOOL,
        "MemoryMappedIo": BOOL,
        "WriteBufferContent": Children(
            {"Pattern": Words(("sequential", "zero", "random")), "RandomDataSource": RANDOM_SOURCE},
            required=("Pattern",),
        ),
        "BurstSize": COUNT,
        "ThinkTime": COUNT,
        "Throughput": Number(attributes={"unit": ("IOPS", "BPMS")}),
        "ThreadsPerFile": COUNT,
        "FileSize": SIZE,
        "MaxFileSize": SIZE,
        "WriteRatio": PERCENT,
        "ParallelAsyncIO": BOOL,
        "ThreadStride": SIZE,
        "IOPriority": COUNT,
        "Weight": COUNT,
    },
    required=("Path",),
)
TIME_SPAN = Children(
    {
        "Targets": ListOf("Target", TARGET),
        "Duration": COUNT,
        "Warmup": COUNT,
        "Cooldown": COUNT,
        "RandSeed": COUNT,
        "RandomWriteData": BOOL,
        "ThreadCount": COUNT,
        "RequestCount": COUNT,
        "GroupAffinity": BOOL,
        "DisableAffinity": BOOL,
        "CompletionRoutines": BOOL,
        "MeasureLatency": BOOL,
        "CalculateIopsStdDev": BOOL,
        "IoBucketDuration": COUNT,
    },
    required=("Targets",),
)
PROFILE = Children(
    {
        "TimeSpans": ListOf("TimeSpan", TIME_SPAN),
        "Verbose": BOOL,
        "VerboseStats": BOOL,
        "Progress": COUNT,
        "ResultFormat": Words(("text", "xml")),
        "PrecreateFiles": Words(
            ("UseMaxSize", "CreateOnlyFilesWithConstantSizes", "CreateOnlyFilesWithConstantOrZeroSizes")
        ),
    },
    required=("TimeSpans",),
)


def problems(text: str) -> list[str]:
    """What the schema, and the checks that DiskSpd makes after it, would refuse."""
    root = ET.fromstring(text)
    if root.tag != "Profile":
        return [f"the root is {root.tag}"]
    return [*_check(root, PROFILE, "Profile"), *_meaning(root)]


def _check(element: ET.Element, rule: object, where: str) -> Iterator[str]:
    allowed = rule.attributes if isinstance(rule, Number) else {}
    for name, value in element.attrib.items():
        if value not in allowed.get(name, ()):
            yield f"{where} has the attribute {name}={value}"
    if isinstance(rule, ListOf):
        if not len(element):
            yield f"{where} is empty"
        for child in element:
            if child.tag == rule.name:
                yield from _check(child, rule.entry, f"{where}/{child.tag}")
            else:
                yield f"{where} holds {child.tag}"
    elif isinstance(rule, Children):
        yield from _check_children(element, rule, where)
    elif len(element) or not rule.allows(element.text or ""):
        yield f"{where} is {element.text!r}"


def _check_children(element: ET.Element, rule: Children, where: str) -> Iterator[str]:
    counts = Counter(child.tag for child in element)
    yield from (f"{where} holds {name} {count} times" for name, count in counts.items() if count > 1)
    yield from (f"{where} lacks {name}" for name in rule.required if name not in counts)
    for child in element:
        if child.tag in rule.of:
            yield from _check(child, rule.of[child.tag], f"{where}/{child.tag}")
        else:
            yield f"{where} holds {child.tag}"


def _meaning(root: ET.Element) -> Iterator[str]:
    """Conflicts that DiskSpd finds once it has read a profile."""
    for target in root.iter("Target"):
        value = {child.tag: child.text or "" for child in target}
        if "StrideSize" in value and ("Random" in value or "RandomRatio" in value):
            yield "sequential StrideSize conflicts with Random"
        source = target.find("WriteBufferContent/RandomDataSource/SizeInBytes")
        if source is not None and int(source.text or 0) < int(value.get("BlockSize", 65536)):
            yield "the write buffer is smaller than the block"
        if "MaxFileSize" in value and int(value["MaxFileSize"]) <= int(value.get("BaseFileOffset", 0)):
            yield "the maximum offset is not beyond the base"
        if value.get("Path", "").startswith("*") and not re.fullmatch(r"\*[1-9][0-9]*", value["Path"]):
            yield "a template target is not * and a number"
