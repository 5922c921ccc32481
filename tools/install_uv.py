"""Put uv into a private folder, from a uv or a pip that is there. Usage: install_uv.py FOLDER."""

import shutil
import subprocess
import sys
import venv
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
    try:
        venv.create(folder, with_pip=True)
        subprocess.run([bin_folder / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
    except (subprocess.CalledProcessError, OSError) as problem:
        sys.exit(
            f"error: cannot install uv into {folder}: {problem}\n\n"
            "hint: install the venv module (Debian: apt install python3-venv) or uv itself, then try again"
        )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
