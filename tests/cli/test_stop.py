"""Ctrl-C and SIGTERM: what was learnt is kept, and going on changes nothing."""

import signal
import time
from pathlib import Path

import pytest

from transporter.cli.stop import Terminated, stop_when_asked
from transporter.data.pairs import PairSet
from transporter.runs import Run
from transporter.training.config import preset
from transporter.training.learner import Hardware
from transporter.training.loop import train


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_training_saves_the_step_that_it_has_reached_and_goes_on_from_there(
    forked, started, first_checkpoint, equal_to_the_bit, data, whole_run, tiny, tmp_path, number, code
) -> None:
    command = ["train", "sprites", "--data", data, *tiny, "--out", "run"]
    asked = started(*command, cwd=tmp_path)
    first_checkpoint(tmp_path / "run")
    asked.send_signal(number)
    since = time.monotonic()
    said = asked.communicate()[1]
    assert time.monotonic() - since < 10
    assert asked.returncode == code
    assert said.splitlines()[-1] == "transporter: stopped, state saved in run: run the same command again to go on"
    assert "Traceback" not in said
    saved = Run.open(tmp_path / "run").latest()
    assert saved is not None
    assert 10 <= saved.step < 150
    assert forked(*command, cwd=tmp_path).code == 0
    equal_to_the_bit(tmp_path / "run", whole_run)


def test_the_loop_saves_where_it_is_asked_to_stop_whatever_the_interval(equal_to_the_bit, data, tmp_path) -> None:
    config = preset("tiny", size=32, keypoints=3, steps=9, batch=8, sigma_steps=2, log_every=2, validate_every=4)
    pairs, hardware, steps = PairSet.open(data), Hardware(device="cpu"), iter(range(1, 10))
    whole, asked = (Run.create(tmp_path / name, config.to_json()) for name in ("whole", "asked"))
    train(config, pairs, whole, hardware)
    train(config, pairs, asked, hardware, stopping=lambda: next(steps) == 7)
    saved = asked.latest()
    assert saved is not None
    assert saved.step == 7
    assert [row["step"] for row in asked.metrics()] == [2, 4, 6]
    train(config, pairs, asked, hardware)
    equal_to_the_bit(asked.path, whole.path)


def test_a_terminated_collection_ends_in_one_line_and_goes_on(forked, started, tmp_path: Path) -> None:
    command = ["collect", "sprites", "--size", "16", "--pairs", "64", "--budget", "9600", "--envs", "1"]
    asked = started(*command, cwd=tmp_path)
    manifest = tmp_path / "data" / "sprites" / "manifest.json"
    deadline = time.monotonic() + 60
    while not (manifest.exists() and '"segments": 0' not in manifest.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.005)
    asked.terminate()
    assert asked.communicate()[1].splitlines()[-1] == "transporter: terminated"
    assert asked.returncode == 143
    again = forked(*command, cwd=tmp_path)
    assert again.code == 0
    assert again.err.splitlines()[-1] == "64 pairs of 16×16 frames in data/sprites"


def test_a_first_signal_is_noted_and_an_impatient_second_one_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_when_asked() as stop:
        assert not stop.asked()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)  # at once: torchrun repeats what the terminal has said
        assert stop.asked()
        monkeypatch.setattr("transporter.cli.stop.IMPATIENT", 0.0)
        with pytest.raises(Terminated, match="stopped at once"):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(Terminated, match="so far"):
            stop.raise_if_asked("so far")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
