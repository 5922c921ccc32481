"""What `make release` says of the artefacts, held against the lock files and against sha256sum."""

import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_SPEC = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
release = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(release)

pytestmark = pytest.mark.skipif(
    shutil.which("cargo") is None, reason="no Rust toolchain: cargo is not on the PATH"
)


def test_the_bill_of_materials_is_what_is_locked():
    bill = release.bill_of_materials()
    crates = {tuple(one["purl"].removeprefix("pkg:cargo/").split("@")) for one in bill["components"]
              if one["purl"].startswith("pkg:cargo/")}  # fmt: skip
    locked = {
        (one["name"], one["version"]) for one in tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    }
    assert crates <= locked
    names = {name for name, _ in crates}
    assert {"arrow-array", "pyo3", "io-uring", "hdrhistogram"} <= names
    assert not {name for name in names if name.startswith("iotrace")}
    assert "windows-link" in names  # there is a wheel for Windows
    packages = {tuple(one["purl"].removeprefix("pkg:pypi/").split("@")) for one in bill["components"]
                if one["purl"].startswith("pkg:pypi/")}  # fmt: skip
    pins = set(
        re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    )
    # `make floors` installs the oldest packages, which are not what is locked.
    if Path(sys.prefix).name != "floors":
        assert packages <= pins
    assert {"duckdb", "numpy", "pyarrow", "scipy"} <= {name for name, _ in packages}
    assert "tzdata" in {name for name, _ in packages}  # the wheel for Windows asks for it
    optional = {one["name"] for one in bill["components"] if one.get("scope") == "optional"}
    assert {"scipy", "plotly"} <= optional
    assert not {"numpy", "pyarrow", "rich"} & optional
    assert not {"pytest", "mypy"} & {name for name, _ in packages}


def test_every_crate_has_a_licence_that_deny_allows_and_a_notice():
    allowed = set(tomllib.loads((ROOT / "deny.toml").read_text())["licenses"]["allow"])
    notices = release.notices()
    for crate in release.crates():
        choices = re.sub(r"[()]", "", crate["licence"]).split(" OR ")
        assert any(set(choice.split(" AND ")) <= allowed for choice in choices), crate
    assert "arrow-array" in notices
    assert "Apache License" in notices


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="sha256sum is not installed")
def test_checksums_are_those_of_sha256sum(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"one")
    (tmp_path / "b.json").write_bytes(b"two")
    (tmp_path / ".gitignore").write_bytes(b"*")  # not handed out
    (tmp_path / "SHA256SUMS").write_text(release.checksums(tmp_path))
    check = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    assert (
        subprocess.run(check, cwd=tmp_path, capture_output=True, check=True).stdout
        == b"a.whl: OK\nb.json: OK\n"
    )
