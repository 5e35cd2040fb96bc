"""A trained agent in one file, at play in a plain gymnasium environment."""

import copy
import dataclasses
import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

import transporter
from transporter.control.keyqn.agent import KeyQN
from transporter.control.keyqn.config import KeyQNConfig, LearningConfig, NetworkConfig, ProtocolConfig
from transporter.control.keyqn.experiment import Experiment, agent_file, learn, learnt, of_today, settings
from transporter.control.keyqn.measure import at_once, keep, kept, measure, scores_file
from transporter.control.keyqn.outcome import curves, figures, seconds, stretches
from transporter.control.keyqn.video import watch
from transporter.control.stored import CARD, read_agent, write_agent
from transporter.envs.atari import AtariEnv
from transporter.errors import InputError
from transporter.runs import Run
from transporter.tensors import read_tensors, write_tensors
from transporter.training.learner import Hardware
from transporter.workers import cores

CPU = Hardware(device="cpu")
TINY = KeyQNConfig(
    NetworkConfig(hidden=16, memory=8, thermometer=6, ground=5),
    LearningConfig(updates=1, batch=2, burn_in=2, unroll=3),
    ProtocolConfig(interactions=60, first_updates=30, episodes=1),
)
BARE = dataclasses.replace(TINY, network=dataclasses.replace(TINY.network, ground=0))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Experiment]:
    """Ms Pac-Man and Pong after sixty interactions: a game with more keypoints and actions beside one with fewer."""
    detectors = {name: transporter.load(name, "cpu") for name in ("ms_pacman", "pong")}
    experiment = Experiment(("ms_pacman", "pong"), (0, 3), "keypoints", TINY, detectors)
    run = Run.create(tmp_path_factory.mktemp("agents") / "run", settings(experiment))
    assert learn(experiment, run, CPU, log_every=20, checkpoint_every=0)
    return run, experiment


@pytest.mark.parametrize("given", [{"episodes": 0}, {"epsilon": 5.0}, {"epsilon": float("nan")}])
def test_no_play_is_refused(run: tuple[Run, Experiment], given: dict[str, float]) -> None:
    agent = KeyQN.load(agent_file(run[0], "pong", 3), "cpu")
    with pytest.raises(InputError, match="at least one episode"):
        agent.play(AtariEnv("pong", 80), **given)  # type: ignore[arg-type]


def test_two_lines_load_it_and_play(run: tuple[Run, Experiment]) -> None:
    import ale_py

    gymnasium.register_envs(ale_py)
    agent = KeyQN.load(agent_file(run[0], "pong", 3), "cpu")
    assert agent.card == {"environment": "pong", "seed": 3, "interactions": 60, "in_loop": False}
    env = gymnasium.wrappers.TimeLimit(gymnasium.make("ALE/Pong-v5"), 30)
    scores = agent.play(env, episodes=2, seed=0)
    assert len(scores) == 2
    assert agent.play(env, episodes=2, seed=0) == scores
    env.close()


def test_it_thinks_as_it_did_in_training(run: tuple[Run, Experiment], tmp_path: Path) -> None:
    agent = KeyQN.load(agent_file(run[0], "pong", 0), "cpu")
    agent.save(tmp_path / "copy.safetensors")
    copy = KeyQN.load(tmp_path / "copy.safetensors", "cpu")
    assert copy.detector is not None
    assert copy.detector.card == transporter.load("pong", "cpu").card
    words, tensors = read_tensors(tmp_path / "copy.safetensors", "an agent")
    head = json.loads(words["agent"])
    for card, holds in ((None, {}), ("no card", None)):
        spoilt = {name: value for name, value in head.items() if name != CARD} | ({CARD: card} if card else {})
        write_tensors(tmp_path / "spoilt.safetensors", tensors, {**words, "agent": json.dumps(spoilt)})
        if holds is None:
            with pytest.raises(InputError, match="its detector's card is no card"):
                KeyQN.load(tmp_path / "spoilt.safetensors", "cpu")
        else:
            assert KeyQN.load(tmp_path / "spoilt.safetensors", "cpu").detector.card == holds  # type: ignore[union-attr]
    game = AtariEnv("pong", 80)
    view, _ = game.reset(seed=0)
    for _ in range(20):
        action = agent(view)
        assert copy(view) == action
        assert action < 6  # of the nine that Ms Pac-Man has
        view, *_ = game.step(action)
    assert torch.equal(agent.weights, copy.weights)


def test_an_environment_with_other_actions_is_refused(run: tuple[Run, Experiment]) -> None:
    agent = KeyQN.load(agent_file(run[0], "pong", 0), "cpu")
    with pytest.raises(InputError, match="6 actions"):
        agent.play(AtariEnv("breakout", 80))


@pytest.mark.parametrize(
    "seen", [np.zeros((80, 80), np.uint8), np.zeros((80, 80, 3), np.float32), np.zeros((4, 84, 84), np.uint8), None]
)
def test_what_is_no_frame_is_refused_in_words(run: tuple[Run, Experiment], seen: object) -> None:
    agent = KeyQN.load(agent_file(run[0], "ms_pacman", 0), "cpu")
    with pytest.raises(InputError, match=r"a frame must be \(H, W, 3\) uint8, not \("):
        agent(seen)


def test_frames_of_an_episode_have_one_size(run: tuple[Run, Experiment]) -> None:
    agent = KeyQN.load(agent_file(run[0], "pong", 0), "cpu")
    agent(np.zeros((80, 80, 3), np.uint8))
    with pytest.raises(
        InputError, match=r"begun with \(80, 80, 3\), and now there is \(210, 160, 3\): reset\(\) first"
    ):
        agent(np.zeros((210, 160, 3), np.uint8))
    agent(np.zeros((80, 80, 3), np.uint8))  # and it goes on
    agent.reset()
    agent(np.zeros((210, 160, 3), np.uint8))


def test_who_sees_objects_says_so(tmp_path: Path) -> None:
    experiment = Experiment(("pong",), (0,), "objects", BARE)
    run = Run.create(tmp_path / "run", settings(experiment))
    assert learn(experiment, run, CPU)
    agent = KeyQN.load(agent_file(run, "pong", 0), "cpu")
    assert agent(np.zeros((3, 3))) in range(6)
    for seen in (np.zeros((80, 80, 3), np.uint8), np.zeros((4, 3)), np.zeros(3), None, "pong"):
        with pytest.raises(InputError, match="this agent sees true objects, 3 at most"):
            agent(seen)


@pytest.mark.parametrize("content", [b"", b"words, and no weights"])
def test_a_file_that_is_no_agent_is_refused(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "agent.safetensors").write_bytes(content)
    with pytest.raises(InputError, match="not an agent of the kind keyqn"):
        KeyQN.load(tmp_path / "agent.safetensors")
    with pytest.raises(InputError, match="does not exist"):
        KeyQN.load(tmp_path / "nowhere.safetensors")


def test_a_detector_is_no_agent() -> None:
    from transporter.models.zoo import shipped

    with pytest.raises(InputError, match="not an agent of the kind keyqn"):
        KeyQN.load(shipped()["pong"])


def test_watching_shows_what_it_looks_at(run: tuple[Run, Experiment]) -> None:
    agent = KeyQN.load(agent_file(run[0], "ms_pacman", 0), "cpu")
    shown = list(watch(agent, "ms_pacman", seed=0, size=80, most=5))
    assert len(shown) == 5
    assert shown[0].screen.shape == (210, 160, 3)
    assert shown[0].points.shape == (5, 2)


def test_the_run_remembers_what_was_learnt(run: tuple[Run, Experiment]) -> None:
    made, experiment = run
    rows = made.metrics()
    assert [row["step"] for row in rows] == sorted({20, 40, *range(6, 61, 6)})  # when asked, and after each tenth
    assert all(np.isfinite(row["loss"]).all() for row in rows)
    assert learnt(experiment, made)
    assert seconds(rows) > 0
    assert learn(experiment, made, CPU)  # nothing is left to do
    assert made.metrics() == rows


def test_true_objects_are_another_thing_to_learn_from_and_whole_games_are_played(tmp_path: Path) -> None:
    experiment = Experiment(("ms_pacman",), (0, 1), "objects", BARE)
    run = Run.create(tmp_path / "run", settings(experiment))
    assert learn(experiment, run, CPU)
    told: list[int] = []
    scores = measure(experiment, run, CPU, told.append)["ms_pacman"]
    assert told[-1] == 2
    assert [len(episodes) for episodes in scores] == [1, 1]
    assert all(score >= 60 and score % 10 == 0 for episodes in scores for score in episodes)


def test_games_in_processes_of_their_own_end_as_they_do_here(tmp_path: Path) -> None:
    config = dataclasses.replace(BARE, protocol=dataclasses.replace(TINY.protocol, evaluation_epsilon=1.0))
    experiment = Experiment(("breakout", "seaquest"), (0,), "objects", config)
    run = Run.create(tmp_path / "run", settings(experiment))
    assert learn(experiment, run, CPU)
    told: list[int] = []
    there = measure(experiment, run, CPU, told.append, workers=2)
    assert list(there) == ["breakout", "seaquest"]
    assert told == sorted(told)
    for name in there:
        scores_file(run, name).unlink()
    assert there == measure(experiment, run, CPU)


def test_a_game_that_was_evaluated_is_not_played_again(tmp_path: Path) -> None:
    config = dataclasses.replace(BARE, protocol=dataclasses.replace(TINY.protocol, evaluation_epsilon=1.0))
    experiment = Experiment(("breakout", "seaquest"), (0,), "objects", config)
    run = Run.create(tmp_path / "run", settings(experiment))
    assert learn(experiment, run, CPU)

    def stop(episodes: int) -> None:
        if episodes == 2:  # of the second game
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(experiment, run, CPU, stop, workers=1)
    assert not scores_file(run, "seaquest").exists()
    breakout = dataclasses.replace(experiment, games=("breakout",))
    keep(breakout, run, [[-7.0]])  # such as nobody plays
    told: list[int] = []
    scores = measure(experiment, run, CPU, told.append)
    assert scores["breakout"] == [[-7.0]]
    assert scores["seaquest"][0][0] >= 0
    assert told == [2]

    # What was changed since, and what others have scored, is played again.
    whole = scores_file(run, "breakout").read_bytes()
    for damaged in (whole.replace(b"-7.0", b"77.0"), whole[:-1], b"", b"[[-7.0]]"):
        scores_file(run, "breakout").write_bytes(damaged)
        assert kept(breakout, run) is None
    scores_file(run, "breakout").write_bytes(whole)
    assert kept(breakout, run) == [[-7.0]]
    agent_file(run, "seaquest", 0).replace(agent_file(run, "breakout", 0))
    assert kept(breakout, run) is None


def test_figures_by_hand() -> None:
    flat = figures({"pong": [[10.0, 12.0], [13.0, 13.0]]}, [3, 7])
    assert flat["pong mean"] == 12
    assert flat["pong std"] == pytest.approx(np.sqrt(2), abs=0.01)
    assert flat["pong seed 7"] == 13
    assert flat["pong human-normalised"] == pytest.approx((12 + 20.7) / (14.6 + 20.7), abs=1e-4)


def test_curves_by_hand() -> None:
    rows = [
        {"step": 10, "episodes": [[0, 4.0, 9]]},
        {"step": 20, "episodes": []},
        {"step": 30, "episodes": [[1, 1.0, 9], [0, 6.0, 9]]},
        {"step": 5_020, "episodes": []},  # what was over by 20 is long ago
        {"step": 9_000, "episodes": []},  # and the newest, but it is the newest
    ]
    first = [(10, 4.0), (20, 4.0), (30, 5.0), (5_020, 6.0), (9_000, 6.0)]
    assert curves(rows, 2) == [first, [(30, 1.0), (5_020, 1.0), (9_000, 1.0)]]


def test_stretches_by_hand() -> None:
    rows = [
        {"step": 10, "episodes": [[0, 4.0, 9], [0, 1.0, 5]]},
        {"step": 11, "episodes": [[0, 7.0, 3]]},
        {"step": 100, "episodes": [[1, 1.0, 9]]},
    ]
    one, other = stretches(rows, 2, ProtocolConfig(interactions=100))
    assert one == [{"games": 2, "mean": 2.5, "best": 4.0}, {"games": 1, "mean": 7.0, "best": 7.0}, *[{}] * 8]
    assert other == [*[{}] * 9, {"games": 1, "mean": 1.0, "best": 1.0}]


def test_a_bit_that_has_changed_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "agent.safetensors"
    write_agent(path, "keyqn", {"card": {}}, {"weights": torch.ones(64)}, None)
    assert read_agent(path, "keyqn").head["card"] == {}
    whole = bytearray(path.read_bytes())
    whole[-1] ^= 1
    path.write_bytes(whole)
    with pytest.raises(InputError, match="is damaged"):
        read_agent(path, "keyqn")


def test_no_more_games_at_once_than_there_are_cores_to_play_them() -> None:
    assert [at_once(games, torch.device("cuda")) for games in (1, 10_000)] == [1, cores()]
    assert at_once(10, torch.device("cpu")) == 1


def test_settings_of_a_version_that_knew_less() -> None:
    """A run folder of then goes on, with one opinion and all rows alike."""
    config = KeyQNConfig(NetworkConfig(opinions=1, level_features=False), LearningConfig(priority=0.0))
    now = settings(Experiment(("pong",), (0,), "objects", config))
    then = copy.deepcopy(now)
    del then["config"]["network"]["level_features"], then["config"]["network"]["ground"]
    del then["config"]["network"]["opinions"], then["config"]["learning"]["priority"]
    assert of_today(then) == now
    assert of_today({"other": 1}) == {"other": 1}
