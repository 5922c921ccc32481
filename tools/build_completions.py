"""Completion for bash, zsh, fish and PowerShell, from the commands themselves, in build/completions.

Where each goes: docs/install.md.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILES = {"bash": "iotrace.bash", "zsh": "_iotrace", "fish": "iotrace.fish", "powershell": "iotrace.ps1"}
"""Shell → file, named as that shell looks for it."""


def script(shell: str) -> str:
    """What makes ``shell`` complete iotrace."""
    words = os.environ | {"_IOTRACE_COMPLETE": f"source_{shell}"}
    command = [sys.executable, "-m", "iotrace.cli"]
    text = (
        subprocess.run(command, env=words, capture_output=True, text=True, check=True).stdout.strip() + "\n"
    )
    if shell == "zsh":
        # zsh loads the file from its fpath as a function, whose first call has to complete already.
        register = "compdef _iotrace_completion iotrace\n"
        if not text.startswith("#compdef iotrace\n") or not text.endswith(register):
            sys.exit(
                "error: Typer writes zsh's completion in another form now: see tools/build_completions.py"
            )
        called = 'if [ "$funcstack[1]" = _iotrace ]; then\n  _iotrace_completion "$@"\nelse\n  '
        text = f"{text.removesuffix(register)}{called}{register}fi\n"
    return text


def main() -> None:
    """Write them."""
    folder = ROOT / "build" / "completions"
    folder.mkdir(parents=True, exist_ok=True)
    for shell, name in FILES.items():
        (folder / name).write_text(script(shell), "utf-8")
    print(f"{', '.join(FILES.values())} in {folder}")


if __name__ == "__main__":
    main()
