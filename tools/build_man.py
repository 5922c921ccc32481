"""Manual pages from the commands themselves, in build/man/man1: `man -M build/man iotrace-capture-linux`.

With `--recorder PROGRAM` the page of the recorder without Python, from what its --help says, on standard output.
"""

import re
import subprocess
import sys
from pathlib import Path

import build_docs

from iotrace.schemas import distribution

ROOT = Path(__file__).parents[1]
_STATUS = """\
.SH EXIT STATUS
0: done; where a question was asked, the answer is yes. 1: the answer is no. 2: wrong use or bad input.
130: stopped by Ctrl-C.
"""


def pages() -> dict[str, str]:
    """File name → page, in the language of man(7)."""
    commands = dict(build_docs.commands())
    names = {name: f"iotrace-{name.replace(' ', '-')}" for name in commands}
    overview = [
        _head("iotrace"),
        ".SH NAME\niotrace \\- record a server's disk I/O, replay it harder elsewhere, find where it breaks",
        ".SH SYNOPSIS\n.B iotrace\n.I COMMAND\n.RI [ OPTIONS ]",
        ".SH COMMANDS",
    ]
    found = {}
    for name, command in commands.items():
        first, _, rest = (command.help or "").strip().partition("\n")
        overview.append(f".TP\n.BR {_plain(names[name])} (1)\n{_text(first)}")
        words = " ".join(_plain(word) for word in build_docs.usage(name, command).split()[1:])
        parts = [
            _head(names[name]),
            f".SH NAME\n{_plain(names[name])} \\- {_plain(first[:1].lower() + first[1:].rstrip('.'))}",
            f".SH SYNOPSIS\n.B iotrace\n{words}",
        ]
        if rest.strip():
            parts.append(f".SH DESCRIPTION\n{_text(rest.strip())}")
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        if shown:
            parts.append(".SH OPTIONS")
        for one in shown:
            spelled = [one.name.upper()] if build_docs.is_word(one) else [*one.opts, *one.secondary_opts]
            parts.append(f".TP\n.B {_plain(', '.join(spelled))}\n{_text(getattr(one, 'help', None) or '')}")
        found[f"{names[name]}.1"] = "\n".join([*parts, _STATUS + ".SH SEE ALSO\n.BR iotrace (1)"]) + "\n"
    return found | {"iotrace.1": "\n".join([*overview, _STATUS]) + "\n"}


def recorder_page(program: str) -> str:
    """The page of ``iotrace-recorder``: its --help holds the synopsis indented, and text around it."""
    version, told = (
        subprocess.run([program, option], capture_output=True, text=True, check=True).stdout
        for option in ("--version", "--help")
    )
    first, synopsis, rest = re.split(r"\n\n", told.strip(), maxsplit=2)
    lines = "\n.br\n".join(_plain(line.strip()) for line in synopsis.splitlines())
    return "\n".join(
        [
            f'.TH IOTRACE\\-RECORDER 1 "" "{_plain(version.strip())}"',
            f".SH NAME\niotrace\\-recorder \\- {_plain(first[:1].lower() + first[1:].rstrip('.'))}",
            f".SH SYNOPSIS\n{lines}",
            f".SH DESCRIPTION\n{_text(rest)}",
            ".SH FILES\n/etc/default/iotrace\\-recorder: what the service records, and how much of it is kept.",
            ".br\n/var/lib/iotrace/ring: what it recorded.",
            "",
        ]
    )


def main() -> None:
    """Write them."""
    if sys.argv[1:2] == ["--recorder"]:
        print(recorder_page(sys.argv[2]), end="")
        return
    folder = ROOT / "build" / "man" / "man1"
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("iotrace*.1"):
        old.unlink()
    for name, page in pages().items():
        (folder / name).write_text(page, "utf-8")
    print(f"{len(pages())} pages in {folder}: man -M {folder.parent} iotrace")


def _head(name: str) -> str:
    return f'.TH {_plain(name).upper()} 1 "" "iotrace {distribution.version()}"'


def _plain(words: str) -> str:
    """Words on one line, without what roff would take for its own."""
    return re.sub(r"\s+", " ", words).replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")


def _text(words: str) -> str:
    """Paragraphs; no line begins with what roff would take for a request."""
    paragraphs = (_plain(paragraph) for paragraph in re.split(r"\n\s*\n", words.strip()))
    return "\n.PP\n".join(re.sub(r"^\.", r"\\&.", paragraph) for paragraph in paragraphs)


if __name__ == "__main__":
    main()
