"""Say plainly what is missing to build the native parts."""

import re
import shutil
import subprocess
import sys

MINIMUM = (1, 88)


def main() -> None:
    """Exit with a message unless a recent cargo and a C linker are there."""
    if shutil.which("cargo") is None:
        sys.exit(
            "error: no Rust toolchain: cargo is not on the PATH\n\n"
            "hint: install Rust 1.88 or newer with rustup and open a new shell"
        )
    text = subprocess.run(["cargo", "--version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"(\d+)\.(\d+)", text)
    if found is None:
        sys.exit("error: cargo is there but does not run\n\nhint: rustup toolchain install stable")
    if tuple(map(int, found.groups())) < MINIMUM:
        sys.exit(
            f"error: Rust 1.88 or newer is needed, this is {text.split()[1]}\n\nhint: rustup update stable"
        )
    if not any(shutil.which(name) for name in ("cc", "gcc", "clang", "link")):
        sys.exit(
            "error: no C linker\n\nhint: Debian: apt install gcc libc6-dev; macOS: xcode-select --install"
        )


if __name__ == "__main__":
    main()
