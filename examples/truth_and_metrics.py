"""How well do keypoints follow objects? Ground truth from the emulator's memory, and the paper's metric.

python examples/truth_and_metrics.py pong --frames 2000
"""

import tyro

import transporter
from transporter.envs import make
from transporter.tracking.evaluate import evaluate, play


def main(game: tyro.conf.Positional[str] = "pong", /, frames: int = 2_000, seed: int = 1_000_000) -> None:
    """Play at random, find keypoints, and compare them with the truth."""
    detector = transporter.load(game)
    env = make(game, detector.config.size)

    # The truth of one frame: centres in [-1, 1], and which objects are there.
    sight = next(play(env, frames=1, seed=seed))
    for name, centre, present in zip(env.scene.objects, *sight.truth, strict=True):
        print(f"{name:10} {f'x {centre[0]:+.2f}  y {centre[1]:+.2f}' if present else 'not on screen'}")

    found = evaluate(env, detector, frames=frames, seed=seed)
    print(f"\n{found.frames} frames, a keypoint follows an object within {found.curve.radius}")
    for length in (1, 20, 200):
        at = found.curve.at(length)
        print(
            f"over {length:3} steps: precision {at.precision:.2f}, recall {at.recall:.2f}, {at.ratio:.0%} of the best"
        )
    for row in found.objects:
        print(f"{row.name:10} followed in {row.recall:.0%} of its windows by keypoint {row.keypoint}")


if __name__ == "__main__":
    tyro.cli(main)
