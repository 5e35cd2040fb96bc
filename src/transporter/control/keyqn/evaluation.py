"""Playing without learning: full episodes, scores as the game gives them."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Float64, Int64
from torch import Tensor

from transporter.control.keyqn.actor import Actor
from transporter.control.keyqn.network import QNetwork
from transporter.control.keyqn.observe import Observer
from transporter.control.keyqn.training import explore
from transporter.control.rollout import Arena, Moment

APART = 1_000_003  # a prime that keeps the seeds of evaluation away from those of training


def evaluate(
    network: QNetwork,
    observer: Observer,
    weights: Float[Tensor, "a p"],
    arena: Arena,
    seeds: Sequence[int],
    epsilon: float,
    each: int = 1,
    *,
    learnt_from: Callable[[np.ndarray], np.ndarray] = np.sign,
    capture: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> Float64[np.ndarray, "a episodes"]:
    """Scores of the first `each` episodes of each player; the arena has one game per agent, with as many players each.

    Everyone plays the same number of episodes from its own seed, so that long ones count as often as short ones.
    """
    copies = arena.players // len(weights)
    legal = np.repeat(network.legal.sum(1).cpu().numpy(), copies)
    own = _seeds(seeds, copies)
    chance = [np.random.default_rng((int(seed), 1)) for seed in own]
    actor = Actor(network, observer, weights, copies, capture=capture)

    def choose(moment: Moment, actions: np.ndarray) -> np.ndarray:
        return explore(actor(moment, actions, learnt_from(moment.reward)), epsilon, legal, chance)

    return _play(arena, own, choose, each, progress).reshape(len(weights), copies * each)


def play_at_random(
    arena: Arena, actions: Sequence[int], seeds: Sequence[int], each: int = 1
) -> Float64[np.ndarray, "a episodes"]:
    """The same with every action drawn at random: what an agent must beat."""
    copies = arena.players // len(seeds)
    own, legal = _seeds(seeds, copies), np.repeat(np.asarray(actions), copies)
    chance = [np.random.default_rng((int(seed), 1)) for seed in own]
    best = np.zeros(arena.players, np.int64)
    scores = _play(arena, own, lambda *_: explore(best, 1.0, legal, chance), each, lambda finished: None)
    return scores.reshape(len(seeds), copies * each)


def _seeds(seeds: Sequence[int], copies: int) -> Int64[np.ndarray, "n"]:
    return np.array([(APART * (seed + 1) + copy) % 2**31 for seed in seeds for copy in range(copies)], np.int64)


def _play(
    arena: Arena,
    seeds: Int64[np.ndarray, "n"],
    choose: Callable[[Moment, np.ndarray], np.ndarray],
    each: int,
    progress: Callable[[int], None],
) -> Float64[np.ndarray, "n each"]:
    """Until everyone has played `each` episodes; a game all of whose players are done rests."""
    scores, played = np.full((arena.players, each), np.nan), np.zeros(arena.players, np.int64)
    actions = np.zeros(arena.players, np.int64)
    moment = arena.reset(seeds)
    while (played < each).any():
        actions = choose(moment, actions)
        moment = arena.step(actions)
        for player, score, _ in moment.finished:
            if played[player] < each:
                scores[player, played[player]] = score
                played[player] += 1
        if moment.finished:
            arena.resting = {i for i, part in enumerate(arena.slices) if (played[part] >= each).all()}
            progress(int(played.sum()))
    return scores
