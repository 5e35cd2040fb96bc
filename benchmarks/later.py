"""Later play than a detector was trained on: how well its keypoints follow while an agent plays that has learnt to.

    python benchmarks/later.py --out results/keyqn/later.json runs/keyqn/points/agents/*-seed0.safetensors

Each agent plays by its own eyes; of each frame keypoints are found by its detector as it is, and by the same detector
without blinkers (`Detector.blinkered`), and compared with the truth. Random play beside it is what detectors know.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import tyro

from transporter.cli import leave
from transporter.cli.given import at_least, room_for
from transporter.control.keyqn.agent import KeyQN
from transporter.envs.atari import AtariEnv
from transporter.errors import InputError
from transporter.results import Result
from transporter.tracking.evaluate import judge
from transporter.tracking.match import Episode
from transporter.tracking.results import Evaluation

LENGTHS = (1, 20, 100)
EPSILON = 0.01
Detect = Callable[[np.ndarray], np.ndarray]


def episodes(env: AtariEnv, agent: KeyQN | None, frames: int, seed: int) -> Iterator[tuple[list[np.ndarray], ...]]:
    """Frames, centres and presence of each episode, until there are so many frames; no agent: at random."""
    random = np.random.default_rng(seed)
    while frames > 0:
        frame, info = env.reset(seed=int(random.integers(2**31)))
        shown: tuple[list[np.ndarray], ...] = ([], [], [])
        over, reward, lives = False, 0.0, -1
        while not over and frames > 0:
            if agent is not None and (not shown[0] or agent.loses_life(lives, info["lives"])):
                agent.reset()
            for kept, new in zip(shown, (frame, *env.truth()), strict=True):
                kept.append(new)
            chosen = agent(frame, reward) if agent is not None else 0
            if agent is None or random.random() < EPSILON:
                chosen = int(random.integers(len(env.scene.actions)))
                if agent is not None:
                    agent.made_to(chosen)
            lives, frames = info["lives"], frames - 1
            frame, reward, terminated, truncated, info = env.step(chosen)
            over = terminated or truncated
        yield shown


def followed(detect: Detect, played: list[tuple[list[np.ndarray], ...]], env: AtariEnv, seed: int) -> Evaluation:
    shown = [tuple(map(np.stack, part)) for part in played]
    found = [Episode(detect(frames), centres, present) for frames, centres, present in shown]
    return judge(found, env.scene, seed, LENGTHS, 1)


def main(agents: tyro.conf.Positional[list[Path]], /, out: Path, frames: int = 3_000, seed: int = 4_000_000) -> None:
    """Measure and write one JSON file.

    Args:
        agents: Files of agents that see with a detector, each of another game.
        out: Where the JSON goes.
        frames: Of each play.
        seed: Of the games.
    """
    at_least(1, frames=frames)
    if not agents:
        raise InputError("name files of agents")
    loaded = [KeyQN.load(path, "cpu") for path in agents]
    games = [agent.card["environment"] for agent in loaded]
    if len(set(games)) < len(games):
        raise InputError("name one agent of each game")
    for path, agent in zip(agents, loaded, strict=True):
        if agent.detector is None:
            raise InputError(f"{path} has no detector: it sees {agent.kind}")
    with room_for(out):
        measure(loaded, out, frames, seed)


def measure(agents: list[KeyQN], out: Path, frames: int, seed: int) -> None:
    figures: dict[str, float] = {}
    details = {}
    for agent in agents:
        game = agent.card["environment"]
        assert agent.detector is not None
        with closing(AtariEnv(game, agent.detector.config.size)) as env:
            for who, player in (("random", None), ("the agent", agent)):
                played = list(episodes(env, player, frames, seed))
                for how, detector in (("as it is", agent.detector), ("without blinkers", agent.detector.opened())):
                    result = followed(detector, played, env, seed)
                    name = f"{game}, {who} plays, {how}"
                    figures |= {f"{name}: at {n}": result.curve.at(n).ratio for n in LENGTHS}
                    details[name] = {row.name: row.recall for row in result.objects if row.windows}
                    shares = " ".join(f"{result.curve.at(n).ratio:.3f}" for n in LENGTHS)
                    print(f"{name:45} {shares}", flush=True)
    config = {"frames": frames, "lengths": list(LENGTHS), "epsilon": EPSILON}
    Result("keypoints in later play", figures, config, {"play": seed}, {"followed": details}, device="cpu").write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))
