"""Assembles a wheel for a system that native modules were built for: the rooms as they are, and those modules.

Usage: assemble.py TARGET FOLDER_OF_LIBRARIES OUTPUT_FOLDER, or assemble.py --crates for cargo's -p options.

setuptools-rust names modules after the Python that runs it, whose system another may be. So the pure part is built by
setuptools from a copy without native modules, the modules are put in, and `wheel` packs, tags and signs it anew. Then
somebody else's tools prove what the wheel's name says: auditwheel the C library, abi3audit the Python.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
STEM = SETTINGS["project"]["name"].replace("-", "_")
"""What the names of wheels begin with."""
BYTES_MAX = 15_000_000
SYSTEM_DLLS = re.compile(
    r"(kernel32|ntdll|advapi32|bcryptprimitives|bcrypt|userenv|ws2_32|winmm|msvcrt|api-ms-win-.*|python3)\.dll",
    re.IGNORECASE,
)
"""What every Windows since 10 has, and Python's own."""


@dataclass(frozen=True, kw_only=True)
class System:
    """What wheels for it are called, and libraries in them."""

    tag: str
    library: str = "lib{}.so"
    suffix: str = ".abi3.so"
    c_library: str = ""
    without: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_windows(self) -> bool:
        """Whether its libraries are DLLs."""
        return self.suffix == ".pyd"


SYSTEMS = {
    "x86_64-unknown-linux-gnu": System(tag="manylinux_2_28_x86_64"),
    "aarch64-unknown-linux-gnu": System(tag="manylinux_2_28_aarch64"),
    "x86_64-unknown-linux-musl": System(tag="musllinux_1_2_x86_64", c_library="libc.musl-x86_64.so.1"),
    "aarch64-unknown-linux-musl": System(tag="musllinux_1_2_aarch64", c_library="libc.musl-aarch64.so.1"),
    "x86_64-pc-windows-gnu": System(
        tag="win_amd64", library="{}.dll", suffix=".pyd", without=frozenset({"iotrace.capture._recorder"})
    ),
}


def main(target: str, libraries: Path, output: Path) -> None:
    """Build, check and name the wheel."""
    system = SYSTEMS[target]
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        pure = build_pure(place)
        run("-m", "wheel", "unpack", "--dest", place, pure)
        (content,) = (path for path in place.glob(f"{STEM}-*") if path.is_dir())
        modules = {name: crate for name, crate in native_modules().items() if name not in system.without}
        for module, crate in modules.items():
            built = libraries / system.library.format(library_of(crate))
            placed = content / f"{module.replace('.', '/')}{system.suffix}"
            if system.is_windows:
                check_dll(module, built)
                # No debugger of Windows reads this kind of debugging information.
                subprocess.run(["x86_64-w64-mingw32-strip", "--strip-debug", "-o", placed, built], check=True)
            else:
                shutil.copy2(built, placed)
                if system.c_library:
                    # Zig says libc.so; musl's loader takes either for itself, PEP 656's tools know this name alone.
                    tool("patchelf", "--replace-needed", "libc.so", system.c_library, placed)
        for module in system.without:
            (content / f"{module.replace('.', '/')}.pyi").unlink(missing_ok=True)
        tag = f"cp311-abi3-{system.tag}"
        retag(content, tag)
        output.mkdir(exist_ok=True)
        run("-m", "wheel", "pack", "--dest-dir", output, content)
        (packed,) = output.glob(f"{STEM}-*-{tag}.whl")
        run("-m", "wheel", "unpack", "--dest", place / "again", packed)  # checks every hash
    if packed.stat().st_size > BYTES_MAX:
        sys.exit(f"error: {packed} has {packed.stat().st_size:,} bytes, and {BYTES_MAX:,} are the most")
    proofs = [] if system.is_windows else [check_c_library(packed, system.tag)]
    if system.c_library:
        proofs.append(check_symbols(packed))
    proofs.append(check_abi3(packed))
    print(
        f"{packed}: {packed.stat().st_size:,} bytes, with {', '.join(modules)}; {', '.join(filter(None, proofs))}"
    )


def native_modules() -> dict[str, Path]:
    """Names and Cargo.toml files of all native modules."""
    modules = SETTINGS["tool"]["setuptools-rust"]["ext-modules"]
    return {one["target"]: ROOT / one["path"] for one in modules}


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
        sys.exit("error: pyproject.toml has native modules in a form that assemble.py does not know")
    code = f"from setuptools import build_meta; build_meta.build_wheel({str(place)!r})"
    run("-c", code, folder=source)
    (wheel,) = place.glob(f"{STEM}-*-none-any.whl")
    return wheel


def check_dll(module: str, dll: Path) -> None:
    """A look at what a module for Windows offers, and what it needs to load."""
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


def check_c_library(wheel: Path, tag: str) -> str:
    """What auditwheel finds the wheel to run on, which has to be no newer than ``tag``."""
    with tempfile.TemporaryDirectory() as nowhere:
        # It would open libc.so, which on a machine with glibc is a text for linkers.
        shown = " ".join(tool("auditwheel", "show", "--ldpaths", nowhere, wheel).split())
    found = re.search(r'following platform tag: "(\w+?)_(\d+)_(\d+)_(x86_64|aarch64)"', shown)
    wanted = re.fullmatch(r"(\w+?)_(\d+)_(\d+)_(x86_64|aarch64)", tag)
    if not found or not wanted:
        sys.exit(f"error: auditwheel does not know what {wheel} runs on:\n{shown}")
    same = (found[1], found[4]) == (wanted[1], wanted[4])
    if not same or (int(found[2]), int(found[3])) > (int(wanted[2]), int(wanted[3])):
        sys.exit(f"error: {wheel} is named for {tag}, and needs what auditwheel says:\n{shown}")
    return f"auditwheel: {found[1]}_{found[2]}_{found[3]}_{found[4]}"


MUSL = Path("/lib/x86_64-linux-musl/libc.so")
"""Debian 12's musl, 1.2.3; what it offers is the same for every processor."""


def check_symbols(wheel: Path) -> str:
    """Whether musl 1.2.3 and Python have all that the modules ask for, of which auditwheel looks at nothing."""
    offered = symbols(MUSL, defined=True)
    with tempfile.TemporaryDirectory() as place:
        run("-m", "wheel", "unpack", "--dest", place, wheel)
        for module in Path(place).rglob("*.so"):
            wanted = {name for name in symbols(module, defined=False) if not re.match(r"_?Py[A-Z_]", name)}
            if strangers := sorted(wanted - offered):
                sys.exit(f"error: {wheel} needs {', '.join(strangers)}, which musl 1.2.3 does not have")
    return "all symbols in musl 1.2.3"


def symbols(library: Path, *, defined: bool) -> set[str]:
    """The names a library offers, or those that it cannot be loaded without."""
    found = set()
    for line in tool("readelf", "--wide", "--dyn-syms", library).splitlines():
        words = line.split()
        if len(words) >= 8 and words[4] in {"GLOBAL", "WEAK"}:
            is_defined = words[6] != "UND"
            if is_defined == defined and (defined or words[4] == "GLOBAL"):
                found.add(words[7].partition("@")[0])
    return found


def check_abi3(wheel: Path) -> str:
    """Whether the modules use what every Python from 3.11 on has, and nothing else."""
    if shutil.which("abi3audit") is None and wheel.name.endswith("win_amd64.whl"):
        return ""  # make windows does without; make wheels brings it
    report = json.loads(tool("abi3audit", "--strict", "--report", wheel))
    results = [one for file in report["specs"].values() for one in file["wheel"]]
    bad = [
        one["name"] for one in results if not one["result"]["is_abi3"] or one["result"]["non_abi3_symbols"]
    ]
    if bad or not results:
        sys.exit(f"error: {wheel} is not for every Python from 3.11 on: {', '.join(bad) or 'no modules'}")
    return f"abi3audit: {len(results)} modules"


def retag(content: Path, tag: str) -> None:
    """Say in the wheel's own words which system it is for, with native code for any Python from 3.11 on."""
    (facts,) = content.glob("*.dist-info/WHEEL")
    text = facts.read_text("utf-8").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    facts.write_text(re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", text), "utf-8")


def tool(*command: str | Path) -> str:
    """What another tool prints; the end if it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{done.stderr or done.stdout}")
    return done.stdout


def run(*arguments: str | Path, folder: Path = ROOT) -> None:
    """Run this Python with ``arguments``, silently unless it fails."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: {' '.join(command)}\n{done.stderr or done.stdout}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--crates"]:
        names = [
            tomllib.loads(path.read_text("utf-8"))["package"]["name"] for path in native_modules().values()
        ]
        print(*(f"-p {name}" for name in names))
    else:
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
