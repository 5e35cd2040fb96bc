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
    episodes: int,
    *,
    learnt_from: Callable[[np.ndarray], np.ndarray] = np.sign,
    capture: bool = False,
    progress: Callable[[int], None] = lambda finished: None,
) -> Float64[np.ndarray, "a episodes"]:
    """Scores of each agent's first `episodes` episodes; the arena has equally many players of each agent."""
    copies = arena.players // len(weights)
    legal = np.repeat(network.legal.sum(1).cpu().numpy(), copies)
    own = _seeds(seeds, copies)
    chance = [np.random.default_rng((int(seed), 1)) for seed in own]
    actor = Actor(network, observer, weights, copies, capture=capture)

    def choose(moment: Moment, actions: np.ndarray) -> np.ndarray:
        return explore(actor(moment, actions, learnt_from(moment.reward)), epsilon, legal, chance)

    return _play(arena, own, choose, (len(weights), episodes), progress)


def play_at_random(
    arena: Arena, actions: Sequence[int], seeds: Sequence[int], episodes: int
) -> Float64[np.ndarray, "a episodes"]:
    """The same with every action drawn at random: what an agent must beat."""
    copies = arena.players // len(seeds)
    own, legal = _seeds(seeds, copies), np.repeat(np.asarray(actions), copies)
    chance = [np.random.default_rng((int(seed), 1)) for seed in own]
    best = np.zeros(arena.players, np.int64)
    shape = (len(seeds), episodes)
    return _play(arena, own, lambda *_: explore(best, 1.0, legal, chance), shape, lambda finished: None)


def _seeds(seeds: Sequence[int], copies: int) -> Int64[np.ndarray, "n"]:
    return np.array([(APART * (seed + 1) + copy) % 2**31 for seed in seeds for copy in range(copies)], np.int64)


def _play(
    arena: Arena,
    seeds: Int64[np.ndarray, "n"],
    choose: Callable[[Moment, np.ndarray], np.ndarray],
    shape: tuple[int, int],
    progress: Callable[[int], None],
) -> Float64[np.ndarray, "a episodes"]:
    """Until every episode that counts is over; a game none of whose players has one left rests.

    Those that count are the first to begin, not the first to end, so that long ones count as often as short ones; and
    whoever is through begins the next, so that few wait for the longest.
    """
    agents, episodes = shape
    copies = arena.players // agents
    scores = np.full(shape, np.nan)
    playing = np.tile(np.arange(copies), agents)  # the episode a player is at; from `episodes` on, none that counts
    begun = np.full(agents, copies)
    actions = np.zeros(arena.players, np.int64)
    moment = arena.reset(seeds)
    while (playing < episodes).any():
        actions = choose(moment, actions)
        moment = arena.step(actions)
        for player, score, _ in moment.finished:
            agent = player // copies
            if playing[player] < episodes:
                scores[agent, playing[player]] = score
            playing[player] = begun[agent]
            begun[agent] += 1
        if moment.finished:
            arena.resting = {i for i, part in enumerate(arena.slices) if (playing[part] >= episodes).all()}
            progress(int(np.isfinite(scores).sum()))
    return scores
