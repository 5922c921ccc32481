"""Say what is in dist/ and what it is made of: checksums, a CycloneDX bill of materials, third-party licence notices.

The native modules and the recorder hold the Rust crates of Cargo.lock; a wheel asks for the Python packages of
requirements.lock. Development tools are in neither list.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SYSTEMS = (
    "x86_64-unknown-linux-gnu",
    "x86_64-unknown-linux-musl",
    "aarch64-unknown-linux-gnu",
    "x86_64-pc-windows-gnu",
)
"""What artefacts are built for, as far as they differ in their crates."""
_EXPRESSION = re.compile(r"[\w.-]+( (OR|AND|WITH) [\w.-]+)*|[\w.-]*\(.*\).*")
"""SPDX's, as against a name such as BSD License."""
_NOTICE = re.compile(r"(licen[cs]e|copying|notice)", re.IGNORECASE)


def crates() -> list[dict[str, str]]:
    """Name, version, licence and folder of every crate that is built into what is handed out."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for system in SYSTEMS:
        command += ["--filter-platform", system]
    found = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    wanted, waiting = set(), list(found["workspace_members"])
    while waiting:
        one = waiting.pop()
        if one not in wanted:
            wanted.add(one)
            waiting += [
                link["pkg"]
                for link in nodes[one]["deps"]
                if any(kind["kind"] is None for kind in link["dep_kinds"])
            ]
    return sorted(
        (
            {
                "name": package["name"],
                "version": package["version"],
                "licence": package["license"].replace("/", " OR "),  # as crates wrote it before 2016
                "folder": str(Path(package["manifest_path"]).parent),
            }
            for package in found["packages"]
            if package["id"] in wanted and package["source"]  # our own have none
        ),
        key=lambda crate: (crate["name"], crate["version"]),
    )


def packages() -> list[dict[str, str]]:
    """Name, version and licence of every Python package that iotrace needs, directly or not; the extra's too.

    What those packages need on Windows alone (Typer: colorama) is not installed here, and so is not told.
    """
    plain = _installed(PROJECT["dependencies"])
    every = _installed([*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["analysis"]])
    return [
        {"name": name, "version": found.version, "licence": _licence(found)}
        | ({} if name in plain else {"scope": "optional"})
        for name, found in sorted(every.items())
    ]


def _installed(requirements: list[str]) -> dict[str, metadata.Distribution]:
    """Name → what is installed of it, for ``requirements`` and all that they ask for here."""
    wanted: dict[str, metadata.Distribution] = {}
    waiting = [_name(requirement) for requirement in requirements]
    while waiting:
        name = waiting.pop()
        if name not in wanted:
            wanted[name] = metadata.distribution(name)
            waiting += [_name(one) for one in wanted[name].requires or [] if ";" not in one]
    return wanted


def bill_of_materials() -> dict[str, object]:
    """CycloneDX 1.5 (ECMA-424), in JSON."""

    def component(kind: str, one: dict[str, str]) -> dict[str, object]:
        told: dict[str, object] = {
            "type": "library",
            "name": one["name"],
            "version": one["version"],
            "purl": f"pkg:{kind}/{one['name']}@{one['version']}",
        }
        if "scope" in one:
            told["scope"] = one["scope"]
        is_expression = bool(_EXPRESSION.fullmatch(one["licence"]))
        told["licenses"] = [
            {"expression": one["licence"]} if is_expression else {"license": {"name": one["licence"]}}
        ]
        return told

    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {"type": "application", "name": PROJECT["name"], "version": PROJECT["version"]}
        },
        "components": [component("cargo", one) for one in crates()]
        + [component("pypi", one) for one in packages()],
    }


def notices() -> str:
    """Licences of the crates that are built in, each text once with the crates that it holds for."""
    holders: dict[str, list[str]] = {}
    for crate in crates():
        files = sorted(path for path in Path(crate["folder"]).iterdir() if _NOTICE.match(path.name))
        for path in files:
            if path.is_file():
                text = path.read_text("utf-8", "replace").strip()
                holders.setdefault(text, []).append(f"{crate['name']} {crate['version']}")
    return "\n".join(f"{'=' * 100}\n{', '.join(names)}\n\n{text}\n" for text, names in holders.items())


def checksums(folder: Path) -> str:
    """Lines for ``sha256sum --check``."""
    hidden = re.compile(r"\..*|SHA256SUMS")  # uv leaves a .gitignore
    files = sorted(path for path in folder.iterdir() if path.is_file() and not hidden.fullmatch(path.name))
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def main() -> None:
    """Write all three beside what is in dist/; with --notices print those alone."""
    if sys.argv[1:] == ["--notices"]:
        print(notices(), end="")
        return
    folder = ROOT / "dist"
    if not folder.is_dir():
        sys.exit(
            "error: there is no dist/\n\nhint: make wheel and make recorder fill it; make release does all"
        )
    stem = f"iotrace-{PROJECT['version']}"
    (folder / f"{stem}.cdx.json").write_text(json.dumps(bill_of_materials(), indent=1) + "\n", "utf-8")
    (folder / f"{stem}-third-party-licences.txt").write_text(notices(), "utf-8")
    (folder / "SHA256SUMS").write_text(checksums(folder), "utf-8")
    print(checksums(folder), end="")


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower()


def _licence(found: metadata.Distribution) -> str:
    about = found.metadata
    if told := about.get("License-Expression"):
        return str(told)
    classes = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or [] if "License ::" in line
    ]
    return " OR ".join(classes) or str(about.get("License") or "").partition("\n")[0]


if __name__ == "__main__":
    main()
