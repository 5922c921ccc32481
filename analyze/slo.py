"""Service-level objectives as people write them: ``p99<15ms``, ``read p95<5ms, log write p99<2ms``."""

import re
from dataclasses import dataclass
from typing import Final

from iotrace.analyze.present.program import figure
from iotrace.schemas import LOAD_OPS, IotraceError, Op, Role

_CLAUSE: Final = re.compile(
    r"(?P<scope>[a-z_ ]*?)\s*p(?P<percent>\d{1,2}(?:[._]\d{1,4})?)\s*(?P<sign><=|<|≤)\s*"
    r"(?P<limit>\d+(?:\.\d+)?)\s*(?P<unit>ns|us|µs|μs|ms|s)"
)
_UNIT_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "μs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_OPS: Final = {
    "read": Op.READ,
    "reads": Op.READ,
    "write": Op.WRITE,
    "writes": Op.WRITE,
    "flush": Op.FLUSH,
    "flushes": Op.FLUSH,
}
_HINT: Final = "write it like 'p99<15ms' or 'read p95<5ms, log write p99<2ms'"


@dataclass(frozen=True, slots=True)
class Objective:
    """One clause: a share ``quantile`` of the response times stays under ``limit_ns``.

    ``role`` and ``op`` narrow it down; None takes all roles, and reads and writes. Flushes count where they are named:
    many models and logs give them no time, which would flatter all the others.
    """

    quantile: float
    limit_ns: int
    role: str | None = None
    op: str | None = None

    @figure
    def text(self) -> str:
        """The clause as people write it."""
        return str(self)

    @property
    def percentile_name(self) -> str:
        """``p99``, ``p99.9``."""
        return f"p{self.quantile * 100:g}"

    @property
    def subject(self) -> str:
        """What is measured, in words: ``p99 response of log writes``."""
        if self.role is None and self.op is None:
            return f"{self.percentile_name} response"
        words = [] if self.role is None else [self.role.replace("_", " ")]
        words.append("I/O" if self.op is None else "flushes" if self.op == "flush" else f"{self.op}s")
        return f"{self.percentile_name} response of {' '.join(words)}"

    @property
    def limit_text(self) -> str:
        """The limit in the unit that keeps it between 1 and 1,000: ``15 ms``, ``2.5 s``, ``250 µs``."""
        number, unit = _number_and_unit(self.limit_ns)
        return f"{number} {'µs' if unit == 'us' else unit}"

    def __str__(self) -> str:
        """Write the clause as `parse` reads it."""
        scope = " ".join(word for word in (self.role, self.op) if word)
        return (
            f"{scope + ' ' if scope else ''}{self.percentile_name}<{''.join(_number_and_unit(self.limit_ns))}"
        )

    @property
    def ops(self) -> tuple[str, ...]:
        """Operations that count for it."""
        return LOAD_OPS if self.op is None else (self.op,)


def parse(text: str) -> tuple[Objective, ...]:
    """Read a comma-separated list of ``[role] [op] pNN<duration``. Raises `IotraceError` naming ``text``."""
    objectives = tuple(_parse_clause(clause, text) for clause in re.split(r"[,;]", text) if clause.strip())
    if not objectives:
        raise IotraceError(f"no objective in '{text}'", hint=_HINT)
    return objectives


def _number_and_unit(value_ns: int) -> tuple[str, str]:
    for unit in ("s", "ms", "us"):
        if value_ns >= _UNIT_NS[unit]:
            return f"{value_ns / _UNIT_NS[unit]:g}", unit
    return f"{value_ns:g}", "ns"


def _parse_clause(clause: str, text: str) -> Objective:
    match = _CLAUSE.fullmatch(clause.strip().lower())
    where = f"'{clause.strip()}'" + (f" in '{text}'" if clause.strip() != text.strip() else "")
    if match is None:
        raise IotraceError(f"cannot read the objective {where}", hint=_HINT)
    role, op = _parse_scope(match["scope"].split(), where)
    quantile = round(float(match["percent"].replace("_", ".")) / 100, 8)
    if not 0 < quantile < 1:
        raise IotraceError(
            f"p{match['percent']} in {where} is not a percentile", hint="use p50, p95, p99 or p99.9"
        )
    limit_ns = round(float(match["limit"]) * _UNIT_NS[match["unit"]])
    if limit_ns <= 0:
        raise IotraceError(f"the limit in {where} is not above zero", hint=_HINT)
    return Objective(quantile, limit_ns, role, op)


def _parse_scope(words: list[str], where: str) -> tuple[str | None, str | None]:
    role: str | None = None
    op: str | None = None
    while words:
        pair = "_".join(words[:2])
        if role is None and pair in set(Role):
            role, words = pair, words[2:]
        elif role is None and words[0] in set(Role):
            role, words = words[0], words[1:]
        elif op is None and words[0] in _OPS:
            op, words = str(_OPS[words[0]]), words[1:]
        else:
            raise IotraceError(
                f"'{words[0]}' in {where} is neither a role nor an operation",
                hint=f"roles: {', '.join(Role)}; operations: read, write, flush",
            )
    return role, op
