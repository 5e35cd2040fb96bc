"""Keypoints instead of pixels in stable-baselines3: PPO plays Pong from the six numbers of three keypoints.

    python examples/keypoints_in_sb3.py --steps 200000

Needs `pip install stable-baselines3`. A few hundred steps only show that it runs; Pong takes some hundred thousand.
"""

import ale_py
import gymnasium
import tyro
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import transporter


def make_env(steps_per_episode: int = 1_000) -> gymnasium.Env:
    """Pong as a gymnasium environment whose observation is (3, 2): (x, y) of each keypoint, in [-1, 1]."""
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", max_episode_steps=steps_per_episode)
    return Monitor(transporter.KeypointObservation(env, transporter.load("pong")))


def main(steps: int = 10_000, episode: int = 1_000, seed: int = 0) -> None:
    """Learn for some steps, then play an episode."""
    env = make_env(episode)
    agent = PPO("MlpPolicy", env, n_steps=min(512, steps), batch_size=64, seed=seed, device="cpu")
    agent.learn(total_timesteps=steps)
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=1)
    print(f"observation {env.observation_space.shape}, {agent.num_timesteps} steps, return {mean:.1f}")


if __name__ == "__main__":
    tyro.cli(main)
