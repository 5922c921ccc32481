"""Draws the README's pictures again: the report's own charts of the bundled recording, by an installed Chromium.

The knee is that of the same recording on modelled storage, which makes it the same on every machine.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from iotrace.analyze.report import write_report
from iotrace.analyze.report.chromium import picture
from iotrace.schemas import Recording, Sweep

ROOT = Path(__file__).parent.parent
BUNDLED = ROOT / "cli" / "bundled" / "pgbench.iotrace"
PICTURES = ROOT / "docs" / "pictures"
MODEL = "model:azure/P30"


def main() -> None:
    """Write knee.png, incident.png and layers.png to docs/pictures."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "sweep.iotrace"
        command = ["sweep", BUNDLED, "--target", MODEL, "--window", "10s..70s", "--need", "2x", "-o", sweep]
        done = subprocess.run([sys.executable, "-m", "iotrace.cli", *map(str, command)], check=False)
        if done.returncode not in {0, 1}:
            sys.exit(done.returncode)
        page = Path(folder) / "report.html"
        write_report([Sweep.open(sweep), Recording.open(BUNDLED)], page, need=2.0)
        for name, chart in (("knee", "knee"), ("incident", "slow-windows"), ("layers", "layers")):
            drawn = picture(page, f"figure[data-chart={chart}]")
            (PICTURES / f"{name}.png").write_bytes(drawn)
            print(f"{name}.png: {len(drawn):,} bytes")


main()
