"""Writes pages of drawn and recorded traces, with what `etlink` prints about them, and opens them in a headless browser.

Usage: browser.py TRACES. TRACES is a folder of drawn traces. tests/browser has the tests; the variable BROWSER names Chromium.
"""
import os
import subprocess
import sys
from pathlib import Path

from command import PAIRS, ROOT, etlink

FOLDER = ROOT / "target/browser"


def write_page(name, *traces):
    etlink("report", "--overwrite", "-o", FOLDER / f"{name}.html", *traces)


def write_json(name, *arguments):
    (FOLDER / f"{name}.json").write_text(etlink(*arguments, "--json"))


def write_all(name, traces):
    """Writes the page of traces, and the figures that it has to show."""
    write_page(name, traces)
    commands = {"analyze": ["analyze"], "memory": ["analyze", "--table", "memory_timeline"]}
    # a written graph has slices of ops, which form no tree
    if name != "written":
        commands |= {"tree": ["top", "--tree"], "frames": ["top", "--tree", "--python"]}
        # ranks are compared by their traces, and the findings of a folder cover all ranks
        if traces.is_dir():
            commands |= {"ranks": ["ranks"], "findings": ["findings"]}
    for figures, command in commands.items():
        write_json(f"{name}.{figures}", *command, traces)


drawn = Path(sys.argv[1])
recorded = PAIRS / "tpdp4-2.15.0"
for path in drawn.iterdir():
    if path.name != "simulated" and path.name != "written":
        write_all(path.stem.split(" ")[0], path)
write_all("recorded", recorded)
# written graphs have a page too, from nothing but `.et` files
etlink("merge", "--overwrite", "-o", drawn / "written", drawn / "devices")
write_all("written", drawn / "written")
runs = [PAIRS / f"transformer-{version}" for version in ("2.3.1", "2.15.0")]
write_page("compared", *runs)
# 1: the runs differ
(FOLDER / "compared.diff.json").write_text(etlink("diff", "--json", *runs, check=False))
log, graphs = ROOT / "testdata/simulated/tpdp4-2.15.0/log.log", drawn / "simulated"
etlink("merge", "--overwrite", "--for", "astra-sim", "--comm-only", recorded, "-o", graphs)
write_page("simulated", recorded, "--simulated", log, "--graphs", graphs)
(FOLDER / "simulated.compared.json").write_text(
    etlink("simulated", "--json", log, "--against", recorded, "--graphs", graphs, check=False)
)
tests = ROOT / "tests/browser/page.test.mjs"
# older versions of Node print TAP if there is no terminal
node = ["node", "--test", "--test-reporter", "spec", tests]
sys.exit(subprocess.run(node, env={**os.environ, "PAGES": str(FOLDER)}, check=False).returncode)
