"""transporter studio: where it listens, how it ends, and what it says of bad input."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest


@contextmanager
def running(folder: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-m", "transporter", "studio", str(folder), "--port", "0", "--json", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, json.loads("".join(process.stdout.readline() for _ in range(4)))
        finally:
            if process.poll() is None:
                process.kill()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_listens_to_this_machine_alone_and_closes_when_asked(tmp_path: Path, number: int, code: int) -> None:
    with running(tmp_path) as (process, said):
        assert said["folder"] == str(tmp_path.resolve())
        host, _, port = said["address"].partition("//")[2].partition("/")[0].partition(":")
        assert host == "127.0.0.1"
        with urlopen(said["address"]) as page:
            assert page.status == 200
        with pytest.raises(HTTPError, match="401"):
            urlopen(f"http://127.0.0.1:{port}/api/runs")
        # Every other address of this machine is deaf.
        other = socket.socket()
        other.settimeout(2)
        with pytest.raises(OSError, match=r"refused|timed out|unreachable"):
            other.connect(("127.0.0.2", int(port)))
        other.close()
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []  # looking leaves nothing behind


def test_a_port_that_is_taken(forked, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ended = forked("studio", tmp_path, "--port", str(taken.getsockname()[1]), cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended.err
    assert "choose another --port" in ended.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["nowhere"], "nowhere is not a folder"),
        (["file"], "file is not a folder"),
        ([".", "--port", "99999"], "--port must be between 0 and 65535"),
        ([".", "--upload-limit", "0"], "--upload-limit must be above 0"),
        ([".", "--host", "no.such.host.invalid"], "cannot listen on"),
        ([".", "--device", "tpu"], "no device named"),
    ],
)
def test_bad_input_is_one_line(forked, tmp_path: Path, options: list[str], says: str) -> None:
    (tmp_path / "file").touch()
    ended = forked("studio", *options, cwd=tmp_path)
    assert (ended.code, len(ended.err.splitlines())) == (2, 1), ended.err
    assert says in ended.err
