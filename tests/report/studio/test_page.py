"""The page's own files: nothing from elsewhere, no markup made from data, short."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from transporter.report.studio.server import PAGE

FILES = sorted(PAGE.iterdir())
SCRIPTS = [path for path in FILES if path.suffix == ".js"]


def test_nothing_comes_from_elsewhere() -> None:
    for path in FILES:
        found = set(re.findall(r"(?:https?:)?//[a-z][\w.-]+", path.read_text()))
        assert found <= {"http://www.w3.org"}, path.name


def test_no_markup_is_made_from_data_and_no_text_is_run() -> None:
    banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|setTimeout\(\s*[\"']|srcdoc"
    for path in SCRIPTS:
        assert not re.search(banned, path.read_text()), path.name
    page = (PAGE / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|\sstyle=|<style", page)


def test_every_import_is_there() -> None:
    names = {path.name for path in FILES}
    for path in SCRIPTS:
        assert set(re.findall(r'from "\./([\w.]+)"', path.read_text())) <= names


def test_files_are_short() -> None:
    assert [path.name for path in FILES if len(path.read_text().splitlines()) > 300] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not there to check the syntax")
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_syntax(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / f"{path.stem}.mjs"
    copy.write_text(path.read_text())
    assert subprocess.run(["node", "--check", copy], capture_output=True, text=True).stderr == ""
