"""Files of every released version open in this one, and mean the same; a file from the future says that it is one.

`files/v1` was written by version 0.1: a data set of 32 pairs, a training run of 12 steps, its detector, and an agent
of each kind: KeyQN's, and options.
A version that writes files differently adds a folder of its own, and leaves the others as they are.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.torch

from transporter.control.keyqn.agent import KeyQN
from transporter.control.options.agent import OptionsAgent
from transporter.data.pairs import PairSet
from transporter.errors import InputError
from transporter.models.zoo import load
from transporter.runs import Run
from transporter.training.config import TrainConfig, of_today
from transporter.training.learner import Hardware
from transporter.training.loop import train

VERSIONS = sorted((Path(__file__).parent / "files").iterdir())
OPENED: list[str] = []  # versions and files, as they pass
SAID_SO: list[str] = []


@pytest.fixture(params=VERSIONS, ids=lambda path: path.name)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(request.param, tmp_path / "files"))


def test_everything_opens_and_means_the_same(files: Path, request: pytest.FixtureRequest, record) -> None:
    expected = json.loads((files / "expected.json").read_text())
    pairs = PairSet.open(files / "data")
    pairs.verify()
    assert len(pairs) == 32
    assert int(pairs.load_all().astype(int).sum()) == expected["frames"]
    run = Run.open(files / "run")
    saved = run.latest()
    assert saved is not None
    assert saved.step == 12
    assert run.warnings == []
    weights = sum(float(t.double().abs().sum()) for t in saved.part("model.").values())
    assert weights == pytest.approx(expected["weights"], rel=1e-9)
    frames = pairs.load_all()[:4, 0]
    np.testing.assert_allclose(load(files / "run", "cpu")(frames), expected["points"], atol=1e-4)
    np.testing.assert_allclose(
        load(files / "model.safetensors", "cpu")(frames), expected["points"], atol=2e-2
    )  # halves
    agent = KeyQN.load(files / "agent.safetensors", "cpu")
    assert agent.card["environment"] == "ms_pacman"
    options = OptionsAgent.load(files / "options.safetensors", "cpu")
    weights = sum(float(t.double().abs().sum()) for t in options.network.state_dict().values())
    assert weights == pytest.approx(expected["options"]["weights"], rel=1e-9)
    player = options.player()
    first, *others = frames
    acted = [player(first, keypoint=1, direction=2), *(player(frame) for frame in others)]
    assert [int(each.best[0]) for each in acted] == expected["options"]["actions"]
    np.testing.assert_allclose(options.detector(frames), expected["points"], atol=2e-2)
    OPENED.append(request.node.name)
    record("10-versions", versions_that_open=len(OPENED))


def test_a_training_of_before_goes_on(files: Path) -> None:
    config = TrainConfig.from_json(Run.open(files / "run").settings["config"])
    settings = json.loads((files / "run" / "run.json").read_text())
    settings["settings"]["config"]["steps"] = 15
    (files / "run" / "run.json").write_text(json.dumps(settings))
    longer = TrainConfig.from_json(settings["settings"]["config"])
    run = Run.open(files / "run")
    with run.lock():
        train(longer, PairSet.open(files / "data"), run, Hardware(device="cpu"))
    assert (config.steps, run.latest().step) == (12, 15)  # type: ignore[union-attr]
    assert [row["step"] for row in run.metrics()] == [3, 4, 6, 8, 9, 12, 15]


def test_a_training_of_before_is_taken_for_what_it_is(files: Path) -> None:
    stored = Run.open(files / "run").settings
    config = TrainConfig.from_json(stored["config"]).to_json()
    today = {**stored, "collected": {**stored["collected"], "moving_camera": False}, "config": config}
    assert config.keys() > stored["config"].keys()  # there is more to set than there was
    assert Run.create(files / "run", today, of_today).latest() is not None
    other = {**today, "config": {**today["config"], "carried": 0.5}}
    with pytest.raises(InputError, match=r"other settings: config\.carried"):
        Run.create(files / "run", other, of_today)


def future(path: Path) -> None:
    """The same file with a higher format."""
    if path.suffix == ".json":
        path.write_text(json.dumps(json.loads(path.read_text()) | {"format": 99}))
    else:
        with safetensors.safe_open(path, "pt") as file:
            head = file.metadata()
        number = head["format"].replace("1", "99")
        safetensors.torch.save_file(safetensors.torch.load_file(path), path, metadata={**head, "format": number})


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("run/run.json", lambda files: load(files / "run")),
        ("data/manifest.json", lambda files: PairSet.open(files / "data")),
        ("model.safetensors", lambda files: load(files / "model.safetensors")),
        ("agent.safetensors", lambda files: KeyQN.load(files / "agent.safetensors")),
        ("options.safetensors", lambda files: OptionsAgent.load(files / "options.safetensors")),
    ],
)
def test_a_file_from_the_future_says_so(files: Path, name: str, read, record) -> None:
    future(files / name)
    with pytest.raises(InputError, match="newer"):
        read(files)
    SAID_SO.append(name)
    record("10-versions", files_from_the_future_that_say_so=len(SAID_SO))


def test_a_checkpoint_from_the_future_is_named_and_not_guessed_at(files: Path) -> None:
    future(files / "run" / "checkpoints" / "step-0000000012" / "manifest.json")
    run = Run.open(files / "run")
    assert run.latest() is None
    assert "newer version of transporter" in run.warnings[0]
