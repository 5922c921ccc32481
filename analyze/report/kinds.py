"""Which kind of file a report becomes: what ``--to`` says, else what its name ends in."""

from pathlib import Path
from typing import Final, Literal, get_args

from iotrace.schemas import IotraceError

Kind = Literal["html", "md", "xlsx", "pdf"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
_OF_SUFFIX: Final[dict[str, Kind]] = {
    ".html": "html",
    ".htm": "html",
    ".md": "md",
    ".xlsx": "xlsx",
    ".pdf": "pdf",
}


def kind_of(path: Path, wanted: str | None = None) -> Kind:
    """The kind of the report that becomes ``path``.

    Raises `IotraceError` if ``wanted`` is no kind, contradicts the name, or neither says one.
    """
    names = ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}"
    named = _OF_SUFFIX.get(path.suffix.lower())
    if wanted is None:
        if named is None and path.suffix:
            raise IotraceError(
                f"'{path.name}' does not end in a kind of report that iotrace writes",
                hint=f"end it in .{names.replace(', ', ', .').replace(' or ', ' or .')}, or say which with --to",
            )
        return named or "html"
    kind = next((kind for kind in KINDS if kind == wanted), None)
    if kind is None:
        raise IotraceError(f"'{wanted}' is not a kind of report", hint=f"--to takes {names}")
    if named is not None and named != kind:
        raise IotraceError(
            f"'{path.name}' is {kind} by --to, but {named} by its name",
            hint=f"leave --to out, or call it {path.stem}.{kind}",
        )
    return kind
