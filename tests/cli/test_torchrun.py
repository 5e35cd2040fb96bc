"""Two processes on the CPU: the same weights as one, one voice, one writer."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from transporter import cli
from transporter.checkpoints import Checkpoint
from transporter.errors import InputError
from transporter.runs import Run
from transporter.training.distributed import process_group

STEPS = ["--preset", "tiny", "--steps", "8", "--batch", "8", "--norm", "instance", "--sigma-steps", "2", "--log-every",
         "4", "--validate-every", "4", "--checkpoint-every", "4", "--device", "cpu"]  # fmt: skip


def torchrun(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # --standalone picks a free port; the module is transporter itself.
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [*command, "-m", "transporter", *map(str, arguments)], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_two_processes_learn_what_one_does(forked, data, tmp_path: Path) -> None:
    command = ["train", "sprites", "--data", data, *STEPS]
    two = torchrun(*command, "--out", "two", cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    assert two.stderr.count("train sprites: 8/8 steps") == two.stderr.count("trained: two") == 1
    assert forked(*command, "--out", "one", cwd=tmp_path).code == 0

    runs = [Run.open(tmp_path / name) for name in ("one", "two")]
    one, other = (run.latest() for run in runs)
    assert one is not None
    assert other is not None
    assert one.tensors.keys() == other.tensors.keys()
    for name, tensor in one.part("model.").items():
        torch.testing.assert_close(other.part("model.")[name], tensor, rtol=0, atol=1e-5)
    for row, like in zip(*(run.metrics() for run in runs), strict=True):
        assert abs(row["loss"] - like["loss"]) < 1e-4
        assert abs(row["validation_loss"] - like["validation_loss"]) < 1e-4
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one", "two"]
    assert sorted(p.name for p in (tmp_path / "two").iterdir()) == [
        "best", "checkpoints", "lock", "metrics.jsonl", "run.json"]  # fmt: skip


EXPLORE = ["--video", "0", "--network.hidden", "16", "--network.memory", "8", "--network.layers", "8", "8", "4",
           "--learning.batch", "4", "--learning.unroll", "4", "--learning.burn-in", "2", "--acting.players", "4",
           "--acting.warm-up", "8", "--acting.replay", "400", "--acting.refill", "0.08", "--eyes.size", "32",
           "--eyes.batch", "8", "--eyes.offset", "5", "--eyes.tiny", "--evaluation.episodes", "2",
           "--evaluation.steps", "30", "--evaluation.look-every", "0", "--log-every", "80", "--checkpoint-every", "160",
           "--device", "cpu"]  # fmt: skip


@pytest.mark.timeout(200)
@pytest.mark.parametrize("players", ["here", "elsewhere"])
def test_two_learners_explore_as_one(forked, players: str, tmp_path: Path) -> None:
    """Each with its own players and its own part of the replay; one process can go on from what they learnt."""
    elsewhere = ["--ray", "local", "--actors", "2"]
    if players == "elsewhere":
        pytest.importorskip("ray")
    command = ["explore", "sprites_control", *EXPLORE, "--out", "run"]
    two = torchrun(*command, "--frames", "200", *(elsewhere if players == "elsewhere" else []), cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    assert two.stderr.count("explore sprites_control: 200/200 frames") == two.stderr.count("done: run") == 1
    run = Run.open(tmp_path / "run")
    rows = run.metrics()
    assert [row["frames"] for row in rows] == [80, 160, 200]
    assert rows[-1]["updates"] > 10
    if players == "here":
        assert forked(*command, "--frames", "280", cwd=tmp_path).code == 0
        more = run.metrics()
        assert more[:3] == rows
        # Twenty steps: eight fill the replay anew, every other of the rest is learnt from.
        assert more[-1]["updates"] == rows[-1]["updates"] + 6
        assert torchrun(*command, "--frames", "360", cwd=tmp_path).returncode == 0  # and two from what one left
        assert run.metrics()[-1]["updates"] == more[-1]["updates"] + 6


def test_what_cannot_be_dealt_out_to_two_is_refused_with_one_voice(tmp_path: Path) -> None:
    ended = torchrun("explore", "sprites_control", *EXPLORE, "--learning.batch", "3", cwd=tmp_path)
    assert ended.stderr.count("transporter: 3 sequences of a batch cannot be dealt out to 2 learners alike") == 1
    assert list(tmp_path.iterdir()) == []


def stopped_once(
    seen: Callable[[Run], bool], ranks: tuple[int, ...], *arguments: str, cwd: Path
) -> tuple[Checkpoint, Run]:
    """Two learners of whom some are asked to stop as soon as that is seen of their run: all stop, and one says so."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"]
    with (cwd / "said").open("w") as said:
        two = subprocess.Popen(
            [*command, "transporter", *arguments], cwd=cwd, stderr=said, env={**os.environ, "OMP_NUM_THREADS": "1"}
        )
    while not ((cwd / "run" / "metrics.jsonl").exists() and seen(Run.open(cwd / "run"))):
        assert two.poll() is None
        time.sleep(0.05)
    for child in children(two.pid):
        told = Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        if any(f"RANK={rank}".encode() in told for rank in ranks):
            os.kill(child, signal.SIGTERM)
    assert two.wait(60) != 0
    assert (cwd / "said").read_text().count("transporter: stopped, state saved in run") == 1
    run = Run.open(cwd / "run")
    assert not (run.path / "exploration.json").exists()
    saved = run.latest()
    assert saved is not None
    return saved, run


def test_whoever_is_asked_to_stop_all_stop_and_say_so(tmp_path: Path) -> None:
    work = ["explore", "sprites_control", *EXPLORE, "--frames", "400000", "--out", "run"]

    def learning(run: Run) -> bool:
        return any(row["updates"] > 0 for row in run.metrics())

    saved, _ = stopped_once(learning, (1,), *work, cwd=tmp_path)
    assert saved.state["updates"] > 0


@pytest.mark.timeout(200)
def test_a_look_of_several_that_is_stopped_is_made_up_for(tmp_path: Path) -> None:
    """The first looks while the others wait for it, and all of them know that it was not to the end."""
    work = ["explore", "sprites_control", *EXPLORE, "--frames", "160", "--evaluate-every", "80",
            "--evaluation.steps", "2000", "--out", "run"]  # fmt: skip

    def looking(run: Run) -> bool:
        return [row["step"] for row in run.metrics() if "returns" not in row] == [20]

    saved, run = stopped_once(looking, (0, 1), *work, cwd=tmp_path)
    assert saved.step == 20
    assert looking(run)
    two = torchrun(*work, cwd=tmp_path)
    assert two.returncode == 0, two.stderr
    assert [(row["step"], len(row["returns"])) for row in run.metrics()] == [(20, 3), (40, 2)]


def children(process: int) -> list[int]:
    return list(map(int, Path(f"/proc/{process}/task/{process}/children").read_text().split()))


def test_who_is_refused_alone_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Of several the first speaks; another waits, for torchrun to end it, and speaks if nobody does."""

    def refused() -> None:
        raise InputError("no such thing")

    waited: list[float] = []
    monkeypatch.setattr(cli.time, "sleep", waited.append)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)
    monkeypatch.setattr(cli.warnings, "showwarning", cli.warnings.showwarning)  # leave() sets its own
    for rank, said in (("0", "transporter: no such thing\n"), ("1", "transporter, process 1: no such thing\n")):
        monkeypatch.setenv("RANK", rank)
        with pytest.raises(SystemExit) as ended:
            cli.leave(refused)
        assert ended.value.code == 2
        assert capsys.readouterr().err == said
        assert waited == [cli.ALONE] * int(rank)


def test_what_is_done_once_is_not_done_twice(tmp_path: Path) -> None:
    ended = torchrun("models", cwd=tmp_path)
    assert ended.returncode != 0
    assert ended.stderr.count("transporter: torchrun is for train and explore") == 1


def test_without_a_data_set_two_processes_are_refused_with_one_voice(tmp_path: Path) -> None:
    ended = torchrun("train", "sprites", cwd=tmp_path)
    assert ended.returncode != 0
    assert ended.stderr.count("transporter: under torchrun name a data set") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_by_its_number_would_be_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="without a number"), process_group(torch.device("cuda:1")):
        pass
