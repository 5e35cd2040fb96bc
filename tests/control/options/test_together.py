"""Two learners, each with half of a batch: what they learn is what one learns from the whole of it."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from transporter.control.options.config import EyesConfig, LearningConfig, NetworkConfig, OptionsConfig
from transporter.control.options.eyes import Learning, transporter
from transporter.control.options.learner import Learner
from transporter.control.options.network import OptionsNet
from transporter.control.replay import Memory, Outcome, SequenceReplay
from transporter.errors import InputError
from transporter.tensors import load_file, save_file
from transporter.training.distributed import all_of, anyone, average, begin_alike, check_same, everyone
from transporter.training.learner import Hardware

CPU = torch.device("cpu")


class Middle:
    """Eyes whose one keypoint is where the frame is brightest on average."""

    keypoints = 1

    def __call__(self, frames: Tensor) -> Tensor:
        light = frames.float().mean(-1) / 255
        return torch.stack((light[:, :, 0].mean(1), light[:, 0].mean(1)), -1)[:, None]


def learner(batch: int) -> Learner:
    torch.manual_seed(0)
    replay = SequenceReplay(4, 8, (8, 8, 3), torch.uint8, 6, CPU)
    memory = Memory(torch.zeros(4, 6), torch.zeros(4, 6))
    for row in range(8):
        replay.see(torch.tensor([row]), torch.randint(0, 255, (4, 8, 8, 3)), torch.full((4,), row == 0), memory)
        one = torch.ones(4)
        real = torch.tensor(
            [True, row % 3 > 0, True, row % 2 > 0]
        )  # there is less to learn from in some than in others
        replay.end(torch.tensor([row]), Outcome(torch.arange(4) % 3, 0 * one, one, real))
    network = OptionsNet(NetworkConfig(layers=((4, 4, 2),), hidden=8, memory=6), 8, keypoints=1, actions=3)
    return Learner(LearningConfig(batch=batch, burn_in=1, unroll=2, rate=1e-2), network, Middle(), replay)


def learnt(mine: slice) -> dict[str, Tensor]:
    """After five updates, of each of which this is a learner's share."""
    players, starts = torch.tensor([0, 1, 2, 3]), torch.tensor([1, 2, 3, 4])
    made = learner(len(players[mine]))
    for _ in range(5):
        made.update(players[mine], starts[mine])
    return made.tensors()


def seen(mine: slice) -> Learning:
    """Eyes that know the mean and deviation of every pixel of these frames."""
    eyes = Learning(transporter(EyesConfig(size=16, batch=4, tiny=True), 2, seed=0), Hardware("cpu"))
    frames = torch.randint(0, 255, (8, 16, 16, 3), generator=torch.Generator().manual_seed(1), dtype=torch.uint8)
    eyes.fit(frames[mine])
    return eyes


def one_of_two(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", f"file://{folder}/meet", rank=rank, world_size=2)
    mine = slice(2 * rank, 2 * rank + 2)
    total = torch.tensor([1.0 + rank, 10.0]), torch.tensor([[4.0 * rank]])
    average(total)
    assert [t.tolist() for t in total] == [[1.5, 10.0], [[2.0]]]
    assert anyone(rank == 1, CPU)
    assert not anyone(False, CPU)
    assert everyone(True, CPU)
    assert not everyone(rank == 1, CPU)
    assert all_of([rank, 7]) == [0, 7, 1, 7]
    drawn = torch.rand(3) + rank
    begin_alike([drawn])
    average([same := drawn.clone()])
    assert torch.equal(same, drawn)
    check_same(5, "run")
    with pytest.raises(InputError, match="on a disk that all share"):
        check_same(5 + rank, "run")
    eyes = seen(slice(4 * rank, 4 * rank + 4))
    found = learnt(mine) | {name: getattr(eyes.learner.model.pixels, name).clone() for name in ("mean", "scale")}
    frames = torch.randint(0, 255, (4, 16, 16, 3), generator=torch.Generator().manual_seed(rank), dtype=torch.uint8)
    for _ in range(3):  # each sees frames of its own; norms see what is theirs, and end alike
        eyes.learn(frames[:2], frames[2:])
    found |= {f"eyes.{name}": tensor for name, tensor in eyes.learner.model.state_dict().items()}
    found["eyes.loss"] = eyes.loss
    found = {name: tensor.contiguous() for name, tensor in found.items()}
    save_file(found, Path(folder) / f"{rank}.safetensors")
    torch.distributed.barrier()  # no one hangs up on another: gloo ends a process for that
    torch.distributed.destroy_process_group()


def test_two_learn_what_one_learns(tmp_path: Path) -> None:
    torch.multiprocessing.spawn(one_of_two, (str(tmp_path),), nprocs=2)
    first, second = (load_file(tmp_path / f"{rank}.safetensors").tensors for rank in range(2))
    for name, tensor in first.items():
        assert torch.equal(tensor, second[name]), name
    pixels = seen(slice(8)).learner.model.pixels
    whole = learnt(slice(4)) | {"mean": pixels.mean, "scale": pixels.scale}
    for name, tensor in whole.items():
        torch.testing.assert_close(first[name], tensor, rtol=1e-4, atol=1e-6)


def test_shares_add_up_to_the_whole() -> None:
    whole = OptionsConfig()
    share = whole.share(4)
    assert (share.acting.players, share.acting.replay) == (64, 250_000)
    assert (share.learning.batch, share.eyes.batch) == (16, 16)
    assert share.capacity == whole.capacity
    assert whole.share(1) == whole
    with pytest.raises(InputError, match="256 players cannot be dealt out to 3 learners alike"):
        whole.share(3)
