"""The rooms of the house and the direction of imports (.importlinter), and habits that a program can check."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def test_imports_go_one_way() -> None:
    found = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_help_does_not_wait_for_torch() -> None:
    code = "import transporter.cli, sys; print('torch' in sys.modules or 'matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_files_are_short_and_none_is_a_grab_bag() -> None:
    assert len(SOURCES) > 30
    assert [p.name for p in SOURCES if len(p.read_text().splitlines()) > 330] == []
    assert [p.name for p in SOURCES if p.stem in ("utils", "helpers", "misc", "common")] == []
