"""Atari-100k: what others have scored, and what a score is worth."""

from types import MappingProxyType

GAMES = ("breakout", "frostbite", "ms_pacman", "pong", "seaquest")  # Table 1

# Mean scores. random, human: as in Agent57 (Badia et al. 2020). KeyQN, SimPLe: Table 1 of the paper, whose random score
# for Seaquest is Pong's. CURL, DrQ(ε), SPR: means over 100 runs from Agarwal et al. 2021; SR-SPR: D'Oro et al. 2023;
# EfficientZero: Ye et al. 2021; BBF: Schwarzer et al. 2023.
PUBLISHED = MappingProxyType(
    {
        "random": (1.7, 65.2, 307.3, -20.7, 68.4),
        "human": (30.5, 4334.7, 6951.6, 14.6, 42054.7),
        "KeyQN (paper)": (19.3, 388.3, 999.4, 10.8, 236.7),
        "SimPLe (paper)": (12.7, 254.7, 762.8, 5.2, 370.9),
        "SimPLe (released)": (16.4, 236.9, 1480.0, 12.8, 683.3),
        "CURL": (2.6, 1226.5, 1064.0, -18.5, 315.2),
        "DrQ(ε)": (19.8, 1014.2, 1218.1, -9.1, 352.3),
        "SPR": (19.6, 1170.7, 1318.4, -5.4, 558.1),
        "SR-SPR": (25.5, 2584.8, 1574.1, 2.9, 819.0),
        "EfficientZero": (414.1, 296.3, 1281.2, 20.1, 1100.2),
        "BBF": (370.6, 2384.8, 2008.3, 16.7, 1232.5),
    }
)


def published(agent: str, game: str) -> float | None:
    """A published mean score, where there is one."""
    return PUBLISHED[agent][GAMES.index(game)] if game in GAMES else None


def human_normalised(game: str, score: float) -> float | None:
    """0 for random play, 1 for the human tester's."""
    low, high = published("random", game), published("human", game)
    return None if low is None or high is None else (score - low) / (high - low)
