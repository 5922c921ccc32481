"""Assembles the wheel for Windows: the rooms as they are, and the native modules that were built for it.

Usage: wheel.py FOLDER_OF_DLLS OUTPUT_FOLDER

setuptools-rust names modules after the Python that runs it, which here is Linux's. So the pure part is built by
setuptools from a copy without native modules, the modules are put in, and `wheel` packs, tags and signs it anew.
"""

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINUX_ONLY = frozenset({"iotrace.capture._recorder"})
TAG = "cp311-abi3-win_amd64"
SYSTEM_DLLS = re.compile(
    r"(kernel32|ntdll|advapi32|bcryptprimitives|bcrypt|userenv|ws2_32|winmm|msvcrt|api-ms-win-.*|python3)\.dll",
    re.IGNORECASE,
)
"""What every Windows since 10 has, and Python's own."""


def main(dlls: Path, output: Path) -> None:
    """Build, check and name the wheel."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        pure = build_pure(place)
        run("-m", "wheel", "unpack", "--dest", place, pure)
        (content,) = (path for path in place.glob("iotrace-*") if path.is_dir())
        modules = native_modules()
        for module, crate in modules.items():
            add_module(module, dlls / f"{library_of(crate)}.dll", content)
        for module in LINUX_ONLY:
            (content / f"{module.replace('.', '/')}.pyi").unlink(missing_ok=True)
        retag(content)
        output.mkdir(exist_ok=True)
        run("-m", "wheel", "pack", "--dest-dir", output, content)
        (packed,) = output.glob(f"iotrace-*-{TAG}.whl")
        run("-m", "wheel", "unpack", "--dest", place / "again", packed)  # checks every hash
    print(f"{packed}: {packed.stat().st_size:,} bytes, with {', '.join(modules)}")


def native_modules() -> dict[str, Path]:
    """Names and Cargo.toml files of the native modules that Windows gets."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    modules = settings["tool"]["setuptools-rust"]["ext-modules"]
    return {one["target"]: ROOT / one["path"] for one in modules if one["target"] not in LINUX_ONLY}


def library_of(crate: Path) -> str:
    """What cargo calls the crate's library."""
    name = tomllib.loads(crate.read_text("utf-8"))["lib"]["name"]
    return str(name)


def build_pure(place: Path) -> Path:
    """A wheel of the rooms without native modules."""
    source = place / "source"
    source.mkdir()
    tracked = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    for name in filter(None, tracked):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/", "tools/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name)
    project = source / "pyproject.toml"
    text = project.read_text("utf-8")
    text = re.sub(r"\[\[tool\.setuptools-rust\.ext-modules\]\]\n(?:(?!\[).*\n)*", "", text)
    project.write_text(text, "utf-8")
    if "setuptools-rust.ext-modules" in text:
        sys.exit("error: pyproject.toml has native modules in a form that wheel.py does not know")
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(place)!r})"
    run("-c", code, folder=source)
    (wheel,) = place.glob("iotrace-*-none-any.whl")
    return wheel


def add_module(module: str, dll: Path, content: Path) -> None:
    """Put one native module into its room, after a look at what it offers and what it needs to load."""
    name = module.rpartition(".")[2]
    headers = subprocess.run(
        ["x86_64-w64-mingw32-objdump", "-p", dll], capture_output=True, text=True, check=True
    ).stdout
    if "file format pei-x86-64" not in headers or not re.search(rf"\bPyInit_{name}\b", headers):
        sys.exit(f"error: {dll} is no Python module for 64-bit Windows")
    needed = re.findall(r"DLL Name: (\S+)", headers)
    if strangers := sorted({one for one in needed if not SYSTEM_DLLS.fullmatch(one)}):
        sys.exit(f"error: {dll} needs {', '.join(strangers)}, which Windows does not have")
    if "python3.dll" not in needed:
        sys.exit(f"error: {dll} is bound to one version of Python: it does not load python3.dll")
    module_file = content / f"{module.replace('.', '/')}.pyd"
    # No debugger of Windows reads this kind of debugging information.
    subprocess.run(["x86_64-w64-mingw32-strip", "--strip-debug", "-o", module_file, dll], check=True)


def retag(content: Path) -> None:
    """Say in the wheel's own words that it is for Windows, with native code for any Python from 3.11 on."""
    (facts,) = content.glob("*.dist-info/WHEEL")
    text = facts.read_text("utf-8").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    facts.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: {TAG}", text), "utf-8")


def run(*arguments: str | Path, folder: Path = ROOT) -> None:
    """Run this Python with ``arguments``, silently unless it fails."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{done.stderr or done.stdout}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
