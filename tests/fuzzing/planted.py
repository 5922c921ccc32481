"""Readers with a fault each, to show that the harness catches such."""

from types import SimpleNamespace

from iotrace.capture.formats.format import Format
from iotrace.schemas import IotraceError


def _recognises(head, _path):
    return head.startswith(b"planted")


def _raise(*_):
    return {}[0]


def _loop(*_):
    while True:
        pass


def _allocate(*_):
    return bytes(4 << 30)


def _refuse_without_hint(_path, name, _progress):
    raise IotraceError(f"'{name}' is bad", hint="")


def _answer(*_):
    return SimpleNamespace(
        batches=list,
        outcome=lambda: SimpleNamespace(
            window_start_ns=0, window_end_ns=0, events=0, quality=SimpleNamespace(judge=lambda _rows: None)
        ),
    )


FORMATS = [
    Format(f"planted-{name}", _recognises, read)
    for name, read in (
        ("raise", _raise),
        ("loop", _loop),
        ("allocate", _allocate),
        ("refuse", _refuse_without_hint),
        ("nothing", _answer),
    )
]
