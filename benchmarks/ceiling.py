"""What options of Seaquest's avatar score at best: a script that moves it as an option asks, by what RAM says.

    python benchmarks/ceiling.py --out results/exploration/seaquest-ceiling.json

A direction is drawn at random and kept for twenty steps, as `transporter explore` evaluates options of the most
controllable keypoint; to move the submarine that way is what such an option learns. Whether it shoots meanwhile is
nothing to it, and to surface without a diver on board costs a life, which no reward tells.
"""

from pathlib import Path

import numpy as np
import tyro

from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.control.options.config import ActingConfig, EvaluationConfig
from transporter.envs.atari import AtariEnv
from transporter.results import Result

GAME = "seaquest"
DIRECTIONS = ("RIGHT", "LEFT", "DOWN", "UP")
HEIGHT, NEARLY_UP, DIVERS, SINKING = 97, 24, 62, 105  # RAM: the submarine's y, divers on board, counts down its end
COMMIT, STEPS = ActingConfig().commit, EvaluationConfig().steps
RANDOM = "random actions"


def play(env: AtariEnv, seed: int, shots: float, surfaces: bool) -> tuple[float, int, int, int]:
    """An episode of options, shooting at so many of the steps: its score, length, lives lost, and near the surface."""
    names, chance = env.scene.actions, np.random.default_rng(seed)
    env.begin(seed)
    score, lost, above, sank = 0.0, 0, 0, 0
    for step in range(STEPS):
        if step % COMMIT == 0:
            direction = DIRECTIONS[chance.integers(len(DIRECTIONS))]
        ram = env.ale.getRAM()
        stays = not surfaces and direction == "UP" and ram[HEIGHT] <= NEARLY_UP and not ram[DIVERS]
        fires = chance.random() < shots
        words = ("" if stays else direction) + ("FIRE" if fires else "")
        score += env.play(names.index(words or "NOOP"))
        told = env.ale.getRAM()
        if told[SINKING] and not sank:
            lost, above = lost + 1, above + int(told[HEIGHT] <= NEARLY_UP)
        sank = int(told[SINKING])
        if any(env.ended()):
            break
    return score, step + 1, lost, above


def at_random(env: AtariEnv, seed: int) -> float:
    chance, score = np.random.default_rng(seed), 0.0
    env.begin(seed)
    for _ in range(STEPS):
        score += env.play(int(chance.integers(len(env.scene.actions))))
        if any(env.ended()):
            break
    return score


def main(episodes: int = 64, seed: int = 0, out: Path | None = None) -> None:
    """Play so many episodes of each way, and write one JSON file.

    Args:
        episodes: Of each way to play.
        seed: Of the first one.
        out: Where the JSON goes.
    """
    at_least(2, episodes=episodes)
    env, seeds = AtariEnv(GAME, 1), range(seed, seed + episodes)
    scores = {RANDOM: [at_random(env, each) for each in seeds]}
    figures: dict[str, float] = {}
    for surfaces in (True, False):
        for shots in (0.0, 0.5, 1.0):
            way = f"options, shooting at {shots:g} of the steps{'' if surfaces else ', not up without a diver'}"
            played = [play(env, each, shots, surfaces) for each in seeds]
            scores[way] = [score for score, *_ in played]
            lengths = [length for _, length, *_ in played]
            figures[f"{way}: steps of an episode"] = round(float(np.mean(lengths)), 1)
            figures[f"{way}: … error of the mean"] = round(float(np.std(lengths, ddof=1) / len(lengths) ** 0.5), 1)
            figures[f"{way}: lives lost"] = sum(lost for *_, lost, _ in played)
            figures[f"{way}: … near the surface"] = sum(above for *_, above in played)
    for way, own in scores.items():
        figures[f"{way}: mean"] = round(float(np.mean(own)), 1)
        figures[f"{way}: error of the mean"] = round(float(np.std(own, ddof=1) / len(own) ** 0.5), 1)
    print(*(f"{name}  {figure}" for name, figure in figures.items()), sep="\n")
    if out is not None:
        settings = {"commit": COMMIT, "steps": STEPS, "episodes": episodes}
        Result("ceiling of options seaquest", figures, settings, {"play": seed}, {"scores": scores}, "cpu").write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))
