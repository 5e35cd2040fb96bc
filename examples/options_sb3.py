"""Options as the actions of stable-baselines3: DQN chooses which keypoint to move where, not which button to press.

    python examples/options_sb3.py --options runs/explore-ms_pacman-seed0/options.safetensors --steps 100000

Needs `pip install stable-baselines3`, and options that `transporter explore GAME` has learnt. Each of DQN's steps is
an option of twenty steps of the game, so that it looks far ahead for the price of a few choices.
"""

from pathlib import Path

import tyro
from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import transporter
from transporter import envs
from transporter.control.options import KeypointOptions, OptionsAgent


def make_env(options: Path) -> Monitor:
    """The game that the options were learnt in: keypoints to look at, options to act with."""
    agent = OptionsAgent.load(options, device="cpu")
    env = envs.make(agent.card["environment"], agent.config.eyes.size)
    return Monitor(transporter.KeypointObservation(KeypointOptions(env, agent), agent.detector))


def main(options: Path, steps: int = 200, seed: int = 0) -> None:
    """Learn for so many options, then play an episode."""
    env = make_env(options)
    agent = DQN("MlpPolicy", env, learning_starts=min(100, steps // 2), buffer_size=10_000, seed=seed, device="cpu")
    agent.learn(total_timesteps=steps)
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=1)
    print(f"{env.action_space.n} options, {agent.num_timesteps} chosen, return {mean:.1f}")


if __name__ == "__main__":
    tyro.cli(main)
