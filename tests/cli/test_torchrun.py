"""Two processes on the CPU: the same weights as one, one voice, one writer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transporter.errors import InputError
from transporter.runs import Run
from transporter.training.distributed import process_group
from transporter.training.learner import Hardware

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


def test_without_a_data_set_two_processes_are_refused_with_one_voice(tmp_path: Path) -> None:
    ended = torchrun("train", "sprites", cwd=tmp_path)
    assert ended.returncode != 0
    assert ended.stderr.count("transporter: under torchrun name a data set") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_by_its_number_would_be_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(InputError, match="without a number"), process_group(Hardware(device="cuda:1")):
        pass
