"""How far things go in a step, and how far keypoints do: what says when a keypoint has left its object.

    python benchmarks/leaps.py --out results/exploration/leaps.json

Random play, the shipped detectors. `learning.jump` of `transporter explore` should lie above what an avatar can do in a
step, and below what a keypoint does when it goes to another object.
"""

from pathlib import Path

import numpy as np
import tyro

import transporter
from transporter.cli import leave
from transporter.cli.given import at_least
from transporter.envs.atari import AtariEnv
from transporter.results import Result

GAMES = ("montezuma_revenge", "ms_pacman", "seaquest")
BOUNDS = (0.1, 0.2, 0.5)
MOVES = 0.2
BATCH = 500


def lengths(points: np.ndarray, together: np.ndarray) -> np.ndarray:
    """(t, n, 2) → (t - 1, n) how far each went, NaN where the later frame does not follow the one before."""
    return np.where(together[:, None], np.linalg.norm(np.diff(points, axis=0), axis=-1), np.nan)


def play(game: str, size: int, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Frames, true centres (NaN where absent), whether each frame but the first follows the one before, lives lost."""
    env, chance = AtariEnv(game, size), np.random.default_rng(seed)
    frames, centres, follows, lost = [], [], [], []
    view, info = env.reset(seed=seed)
    over, lives = False, info["lives"]
    for step in range(steps):
        if step:
            if over:
                view, info = env.reset()
                begun, over = True, False
            else:
                view, _, ended, cut, info = env.step(int(chance.integers(len(env.scene.actions))))
                begun, over = False, ended or cut
            follows.append(not begun)
            lost.append(not begun and info["lives"] < lives)
            lives = info["lives"]
        truth = env.truth()
        frames.append(view)
        centres.append(np.where(truth.present[:, None], truth.centres, np.nan))
    return np.stack(frames), np.stack(centres), np.array(follows), np.array(lost)


def main(games: tuple[str, ...] = GAMES, steps: int = 8_000, seed: int = 0, out: Path | None = None) -> None:
    """Watch random play of each game.

    Args:
        games: With truth, and with a shipped detector.
        steps: Of each.
        seed: Of the play.
        out: Where the JSON goes.
    """
    at_least(BATCH, steps=steps)
    figures: dict[str, float] = {}
    for game in games:
        detector = transporter.load(game, device="cpu")
        frames, centres, follows, lost = play(game, detector.config.size, steps, seed)
        points = np.concatenate([detector(part) for part in np.array_split(frames, steps // BATCH)])
        alive = follows & ~lost
        objects, keypoints = lengths(centres, alive), lengths(points, alive)
        avatar = objects[:, 0][~np.isnan(objects[:, 0])]
        figures |= {f"{game}: avatar, {q:g} of its steps within": float(np.quantile(avatar, q)) for q in (0.99, 0.999)}
        near = avatar <= MOVES  # what goes farther was put elsewhere: back at the start, through a tunnel
        figures[f"{game}: avatar, longest step within {MOVES:g}"] = float(avatar[near].max())
        figures[f"{game}: avatar, times it was put elsewhere"] = int((~near).sum())
        figures[f"{game}: avatar, shortest way elsewhere"] = float(avatar[~near].min(initial=np.inf))
        figures[f"{game}: avatar, longest way elsewhere"] = float(avatar[~near].max(initial=0.0))
        figures[f"{game}: avatar, longest step as a life is lost"] = float(
            np.nanmax(lengths(centres[:, :1], lost), initial=0.0)
        )
        for bound in BOUNDS:
            share = np.nanmean(keypoints > bound, axis=0)
            figures[f"{game}: share of keypoints' steps beyond {bound:g}"] = float(share.mean())
            figures[f"{game}: … beyond {bound:g} of the keypoint that leaps most"] = float(share.max())
        figures = {name: round(value, 4) for name, value in figures.items()}
        print(*(f"{name}  {value}" for name, value in figures.items() if name.startswith(game)), sep="\n", flush=True)
    if out is not None:
        Result("leaps", figures, {"steps": steps, "bounds": list(BOUNDS)}, {"play": seed}, device="cpu").write(out)


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))
