"""The whole loop on a world with one shape that can be moved among others that cannot."""

import dataclasses

import numpy as np
import pytest
import torch
from gymnasium.vector import AutoresetMode, VectorEnv

from transporter.control.options.actor import Actor
from transporter.control.options.choice import Commitment
from transporter.control.options.config import (
    ActingConfig,
    EyesConfig,
    LearningConfig,
    NetworkConfig,
    OptionsConfig,
)
from transporter.control.options.evaluation import AVATAR, Witness, measure_control, play, shares, watch
from transporter.control.options.eyes import Eyes, Learning, transporter
from transporter.control.options.network import OptionsNet
from transporter.control.options.training import Exploration, exploration
from transporter.control.rollout import Arena
from transporter.envs import make, make_vector, scene
from transporter.envs.base import Truth
from transporter.envs.sprite_worlds import WORLDS
from transporter.envs.sprites import EPISODE, SpriteVector
from transporter.errors import InputError
from transporter.training.learner import Hardware

WORLD, SIZE, ACTIONS = "sprites_control", 24, 5
CPU = Hardware("cpu")
QUICK = OptionsConfig(
    NetworkConfig(layers=((16, 4, 2), (16, 3, 2)), hidden=64, memory=32, caution=0),
    LearningConfig(batch=16, burn_in=2, unroll=10, every=1, discount=0.9, rate=1e-3, target_rate=0.02),
    ActingConfig(players=16, commit=20, warm_up=40, replay=8_000, epsilon_low=0.05),
    EyesConfig(size=SIZE, offset=5, batch=8, tiny=True),
)


def games(count: int) -> object:
    return make_vector(WORLD, count, SIZE)


def test_the_shape_that_can_be_moved_is_found_and_moved(colours) -> None:
    """Chosen by Eq. 2 in 95 % of states, and moved three times as far as by random actions."""
    torch.manual_seed(0)
    with exploration(QUICK, games, ACTIONS, colours, CPU) as made:
        for _ in made.steps(350):
            pass
    world = make_vector(WORLD, 64, SIZE)
    arena = Arena([world], life_loss_ends=False)
    found = measure_control(made.study.network, colours, arena, world.truth, scene(WORLD).radius, commit=20, rounds=4)
    assert found.chosen >= 0.95
    assert found.farther >= 3
    # What the world pays for is none of this: it pays nothing. Who watches says the same of the avatar.
    witness = Witness(world, "controllable", scene(WORLD), colours, every=3)
    ways = ("actions", "controllable")
    played = play(made.study.network, arena, ways, 20, 30, seed=(0, 0), witness=witness)
    assert {way: found.returns.tolist() for way, found in played.items()} == {way: [0.0] * 32 for way in ways}
    assert (witness.avatar or 0) >= 0.9
    assert witness.rooms == {}
    shown = list(watch(made.study.network, colours, make(WORLD, SIZE), commit=20, seed=0, steps=3))
    assert [step.points.shape for step in shown] == [(3, 2)] * 3


class Abyss(SpriteVector):
    """The same world, but who is steered down over its middle is lost."""

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        above, new = self.truth().centres[:, AVATAR, 1] <= 0, self.simulation.step == EPISODE
        view, reward, _, over, info = super().step(actions)
        lost = above & ~new & (self.truth().centres[:, AVATAR, 1] > 0)
        self.simulation.step[lost] = EPISODE  # begins anew with the next step
        return view, reward, lost, over & ~lost, info


def lives_lost(caution: float, colours: Eyes, seed: int = 0) -> int:
    """By 32 players in 200 steps of options of the most controllable shape, after a training."""
    config = dataclasses.replace(QUICK, network=dataclasses.replace(QUICK.network, caution=caution))
    worlds = [Abyss(WORLDS[WORLD], WORLD, count, SIZE) for count in (16, 32)]
    with exploration(config, lambda count: worlds[0], ACTIONS, colours, CPU, seed) as made:
        for _ in made.steps(800):
            pass
    arena = Arena([worlds[1]], life_loss_ends=True)
    moment, taken = arena.reset(np.arange(32)), np.zeros(32, np.int64)
    actor = Actor(made.study.network, 32)
    commitment = Commitment(32, colours.keypoints, 20, "controllable", np.random.default_rng(0))
    lost = 0
    for _ in range(200):
        taken = actor(moment, taken, commitment.next(moment.first)).best
        moment = arena.step(taken)
        lost += int((moment.discount == 0).sum())
    return lost


def test_options_with_caution_stay_alive(colours: Eyes) -> None:
    """Without it whoever is above and wants to go down is lost; with it less than half are, by the mean of three."""
    careless = lives_lost(0.0, colours)
    careful = np.mean([lives_lost(0.1, colours, seed) for seed in range(3)])
    assert careless > 30
    assert careful < careless / 2


class Paid(VectorEnv):
    """Games that show their number and pay it once, the second time they are asked; who asked for what is kept."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, count: int) -> None:
        self.num_envs, self.actions, self.seeds = count, [], []

    def reset(self, *, seed=None, options=None):
        self.seeds = seed
        return self._view(), {}

    def step(self, actions):
        self.actions.append(actions.tolist())
        reward = np.arange(self.num_envs) * float(len(self.actions) == 2)
        over = np.full(self.num_envs, len(self.actions) == 3)
        return self._view(), reward, over, ~over & False, {}

    def _view(self) -> np.ndarray:
        numbers = np.arange(self.num_envs, dtype=np.uint8)
        return np.broadcast_to(numbers[:, None, None, None], (self.num_envs, SIZE, SIZE, 3)).copy()


def test_each_way_is_played_by_players_of_its_own() -> None:
    network = OptionsNet(QUICK.network, SIZE, keypoints=3, actions=ACTIONS)
    games = Paid(6)
    ways = ("actions", "options", "controllable")
    played = play(network, Arena([games], life_loss_ends=False), ways, commit=20, steps=10, seed=(0, 0))
    assert {way: found.returns.tolist() for way, found in played.items()} == {
        "actions": [0, 1], "options": [2, 3], "controllable": [4, 5]
    }  # fmt: skip
    for way, part in shares(ways, 6).items():
        done = np.array(games.actions)[:, part]
        assert played[way].taken.tolist() == np.bincount(done.flatten(), minlength=ACTIONS).tolist()
    assert games.seeds[:2] == games.seeds[2:4] == games.seeds[4:]  # games begin alike
    # Beside others a way does what it does alone: what is random draws its own numbers, what is greedy sees the same.
    for way, part in shares(ways, 6).items():
        alone = SomePaid(games.num_envs, part)
        play(network, Arena([alone], life_loss_ends=False), (way,), commit=20, steps=10, seed=(0, 0))
        assert alone.actions == [actions[part] for actions in games.actions]
    first = [actions[:2] for actions in games.actions]
    assert len({tuple(actions) for actions in first}) > 1  # random ones differ from step to step
    later = Paid(6)  # the next look is at other games, and at other options
    play(network, Arena([later], life_loss_ends=False), ways, commit=20, steps=10, seed=(0, 5))
    assert not set(later.seeds) & set(games.seeds)
    assert later.actions != games.actions


class SomePaid(Paid):
    """Some of them: they show the numbers that they had among all."""

    def __init__(self, count: int, part: slice) -> None:
        super().__init__(part.stop - part.start)
        self.part, self.all = part, count

    def _view(self) -> np.ndarray:
        numbers = np.arange(self.all, dtype=np.uint8)[self.part]
        return np.broadcast_to(numbers[:, None, None, None], (self.num_envs, SIZE, SIZE, 3)).copy()


class Told(VectorEnv):
    """Two games that are looked at, after one that is not: avatars at the right, other things in the middle."""

    num_envs, ram = 3, np.zeros((3, 128), np.uint8)

    def truth(self, part: slice) -> Truth:
        centres = np.tile(np.array([[0.5, 0.5], [0.0, 0.0]], np.float32), (3, 1, 1))
        return Truth(centres[part], self.present[part])


def test_nobody_is_on_the_avatar_who_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    games, playing = Told(), np.array([True, True, True])
    parts = {"options": slice(0, 1), "controllable": slice(1, 3)}
    points = torch.tensor([[0.5, 0.4], [0.0, 0.0]]).expand(2, 2, 2)
    seen: list[tuple[int, ...]] = []

    def eyes(pictures: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(pictures.shape))
        return points

    witness = Witness(games, "controllable", scene("montezuma_revenge"), eyes, every=2)

    def look(step: int, most: list[int], present: list[bool], rooms: list[int]) -> None:
        games.present = np.array([[there, True] for there in present])
        games.ram[:, 3] = rooms
        witness.look(step, parts, lambda: torch.zeros(3, 4, 4, 3), np.array(most), playing)

    assert (witness.avatar, witness.rooms) == (None, {})
    look(0, [1, 0, 1], [True, True, True], [9, 1, 1])  # one on the avatar, one not; who plays another way is elsewhere
    look(1, [1, 1, 1], [True, True, True], [9, 1, 2])  # a step without a look, but for rooms
    playing[1] = False
    look(2, [1, 1, 0], [True, True, False], [9, 5, 2])  # one is through, the other's avatar is not there
    look(4, [1, 1, 0], [True, True, True], [9, 5, 2])
    assert witness.avatar == pytest.approx(2 / 3)
    assert witness.rooms == {"options": 1, "controllable": 2}  # 9; 1 and 2
    assert seen == [(2, 4, 4, 3)] * 3


def learning() -> Exploration:
    eyes = Learning(transporter(QUICK.eyes, keypoints=3, seed=0), CPU)
    return Exploration(QUICK, games, ACTIONS, eyes, CPU)


def test_both_learn_and_a_break_loses_nothing_that_was_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transporter.control.options.study.KEPT", 0)  # too large a replay to be kept
    made = learning()
    for _ in made.steps(46):
        pass
    one = made.study
    assert isinstance(one.eyes, Learning)
    assert one.learner.done == one.eyes.done == 6  # after 40 steps at random
    one.drift()
    saved = made.checkpoint()
    again = learning()
    again.restore(saved)
    other = again.study
    assert isinstance(other.eyes, Learning)
    assert (again.count, other.learner.done, other.eyes.done) == (46, 6, 6)
    learnt = zip(one.learner.tensors().values(), other.learner.tensors().values(), strict=True)
    assert all(torch.equal(a, b) for a, b in learnt)
    frames = torch.from_numpy(made.players.moment.views[0])
    assert torch.equal(one.eyes(frames), other.eyes(frames))
    assert one.chance.bit_generator.state == other.chance.bit_generator.state
    assert np.array_equal(made.players.epsilon, again.players.epsilon)
    assert not again.study.knows_nothing  # it is filled again by what was learnt, not at random
    for _ in again.steps(46 + 47):  # the replay is filled first, with as many steps as there were
        pass
    assert other.learner.done == 7
    again.restore(saved._replace(step=10_000))
    assert other.needs == 8_000 // 16 // 4  # … or with a quarter of all it holds
    again.restore(saved)
    assert other.needs == 46  # whatever was needed before
    made.close()
    again.close()


def test_with_a_replay_that_is_kept_a_break_changes_nothing() -> None:
    made = learning()
    assert made.study.keeps
    for _ in made.steps(46):
        pass
    made.study.drift()
    moment = made.players.moment
    saved = made.checkpoint()
    assert made.players.moment is moment  # to look at it changes nothing
    made.begin_anew()
    saved = saved._replace(tensors={name: tensor.clone() for name, tensor in saved.tensors.items()})
    again = learning()
    again.restore(saved)
    for one in (made, again):
        for _ in one.steps(46 + 9):
            pass
    assert made.study.drift() == again.study.drift()
    kept, other = made.checkpoint(), again.checkpoint()
    assert kept.state == other.state
    assert kept.state["updates"] == 6 + 9  # at once, and once a step
    assert [name for name, tensor in kept.tensors.items() if not torch.equal(tensor, other.tensors[name])] == []
    # Where games begin anew, nothing follows what came before.
    assert made.study.replay.first[:, 46].all()
    assert not made.study.replay.real[:, 45].any()
    made.close()
    again.close()


def test_the_ring_goes_round_and_what_is_drawn_is_there() -> None:
    """With a replay of 30 rows a player, after 100 steps only the last 30 can be drawn, and pairs are near."""
    config = dataclasses.replace(QUICK, acting=ActingConfig(players=4, warm_up=200, replay=4 * 30))
    with exploration(config, games, ACTIONS, learning_eyes(), CPU) as made:
        for _ in made.steps(100):
            pass
        made.players.send(at_random=True)  # row 100
        made.study.rows[:] = made.players.actor.step
        players, starts = made.study.drawn(2_000, 13)
        assert (int(starts.min()), int(starts.max())) == (101 - 30 + 1, 101 - 13)
        assert sorted(set(players.tolist())) == [0, 1, 2, 3]
        rows = made.study.replay.rows[:, 100 % 30]
        assert torch.equal(rows, torch.from_numpy(made.players.moment.views[0]))
        made.players.receive()


def learning_eyes() -> Learning:
    return Learning(transporter(QUICK.eyes, keypoints=3, seed=0), CPU)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match="too small for 16 players"):
        dataclasses.replace(QUICK, acting=dataclasses.replace(QUICK.acting, replay=200))
    with pytest.raises(InputError, match="too small for these layers"):
        Exploration(dataclasses.replace(QUICK, network=NetworkConfig()), games, ACTIONS, learning_eyes(), CPU)
    assert OptionsConfig.from_json(QUICK.to_json()) == QUICK


def test_what_was_filmed_is_kept_as_the_pictures_of_the_game(colours) -> None:
    """Two players of Pong, whose film is developed where the network is."""
    small = dataclasses.replace(
        QUICK, acting=dataclasses.replace(QUICK.acting, players=2, replay=200), learning=LearningConfig(batch=2)
    )
    filmed = lambda count: make_vector("pong", count, SIZE, film=True)  # noqa: E731
    with exploration(small, filmed, 6, colours, CPU) as made:
        alone = [make("pong", SIZE) for _ in range(2)]
        seeds = made.players._seeds(0)
        views = [env.reset(seed=int(seed))[0] for env, seed in zip(alone, seeds, strict=True)]
        for step, _ in made.steps(30):
            kept = made.study.replay.rows[:, step - 1].int()
            assert (kept - torch.from_numpy(np.stack(views)).int()).abs().max() <= 1
            views = [env.step(int(a))[0] for env, a in zip(alone, made.players.taken, strict=True)]
