"""The stored corpus: what a fuzzer starts from, and findings of earlier runs."""

from pathlib import Path

STORED = Path(__file__).parents[1] / "fixtures" / "corpus"


def stored(name):
    """Files of the stored corpus for a target."""
    return sorted(path for path in (STORED / name).glob("*") if path.is_file())


def inputs(name):
    """Bytes a fuzzer starts from. There is always one: without any, nothing behind the door would be reached."""
    found = [path.read_bytes() for path in stored(name)]
    assert found, f"no input in {STORED / name}"
    return found
