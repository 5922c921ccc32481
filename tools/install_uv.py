"""Put uv into a private folder, from a uv or a pip that is there. Usage: install_uv.py FOLDER."""

import shutil
import subprocess
import sys
import venv
from importlib.util import find_spec
from pathlib import Path

MINIMUM = (3, 11)


def main(folder: Path) -> None:
    """Create FOLDER/bin/uv."""
    if sys.version_info < MINIMUM:
        sys.exit(
            f"error: iotrace needs Python 3.11 or newer, this is {sys.version.split()[0]}\n\n"
            "hint: install one and run make PYTHON=/path/to/python3.11"
        )
    bin_folder = folder / "bin"
    present = shutil.which("uv")
    if present and subprocess.run([present, "--version"], capture_output=True, check=False).returncode == 0:
        bin_folder.mkdir(parents=True, exist_ok=True)
        (bin_folder / "uv").unlink(missing_ok=True)
        (bin_folder / "uv").symlink_to(Path(present).resolve())
        return
    if find_spec("ensurepip") is None:  # Debian has it in a package of its own, and says so at length
        sys.exit(
            "error: this Python has no venv module\n\n"
            "hint: Debian, Ubuntu: apt install python3-venv; or install uv itself, then try again"
        )
    try:
        venv.create(folder, with_pip=True)
        subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    except (subprocess.CalledProcessError, OSError) as problem:
        sys.exit(
            f"error: cannot install uv into {folder}: {problem}\n\n"
            "hint: can this machine reach the Python package index? Or install uv itself, then try again"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
