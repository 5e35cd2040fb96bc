"""Runs of agents (transporter keyqn) and of options (transporter explore): what their pages show.

Everything comes from metrics.jsonl, so that it is there while they learn; scores of the evaluation come at the end.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from transporter.files import is_number
from transporter.report.studio.inside import figures_in, file_in, json_in, part, signature
from transporter.report.studio.series import Curve, Row, as_curves, read_rows, thinned

AGENTS, OPTIONS, KEYPOINTS = "agents", "options", "keypoints"  # the kinds of runs
RESULTS = {AGENTS: "keyqn.json", OPTIONS: "exploration.json"}
WAYS = ("actions", "options", "controllable")  # random actions; options of all keypoints; of the most controllable one
SHARES = tuple(range(0, 101, 5))  # percentiles
LATELY = 5_000  # interactions whose episodes a point of a learning curve is the mean of, as in curves.png

Marks = Callable[[str], Mapping[str, float]]  # published scores of a game


def kind_of(settings: dict[str, Any]) -> str:
    """What was learnt, by what its command wrote down."""
    return AGENTS if part(settings, "keyqn") else OPTIONS if part(settings, "explore") else KEYPOINTS


def names(settings: dict[str, Any]) -> list[str] | None:
    """Of the agents, in the order of the lists in their rows; None for other runs, whose lists are of keypoints."""
    games, seeds = _who(settings)
    several = len(games) > 1
    return [f"{game} seed {seed}" if several else f"seed {seed}" for game in games for seed in seeds] or None


def _who(settings: dict[str, Any]) -> tuple[list[str], list[int]]:
    asked = part(settings, "keyqn")
    games = [name for name in _list(asked.get("games")) if isinstance(name, str)]
    return games, [seed for seed in _list(asked.get("seeds")) if is_number(seed)]


class Score(NamedTuple):
    """The one figure of a finished run, and what it is."""

    value: float
    name: str


def score(kind: str, folder: Path) -> Score | None:
    """Of agents their score, or several games' share of a human's; of options the rooms, or the best returns."""
    found = figures_in(folder, RESULTS[kind]) if kind in RESULTS else {}
    if kind == AGENTS:
        means = [value for name, value in found.items() if name.endswith(" mean")]
        human = [value for name, value in found.items() if name.endswith(" human-normalised")]
        if len(means) == 1:
            return Score(means[0], "score")
        return Score(100 * sum(human) / len(human), "% of human") if human else None
    for name, title in (("rooms, most", "rooms"), ("controllable p95", "95th percentile")):
        if name in found:
            return Score(found[name], title)
    return None


class Agent(NamedTuple):
    """One seed."""

    seed: int
    x: list[float]  # interactions
    y: list[float]  # mean score of its last episodes
    episodes: int  # that it played while it learnt
    scores: list[float]  # of its evaluation; none before


class Learnt(NamedTuple):
    """A game and all who learn it."""

    game: str
    agents: list[Agent]
    best: int | None  # the seed whose play the clip shows
    marks: Mapping[str, float]  # what others score
    video: str | None


def learnt(settings: dict[str, Any], rows: Iterable[Row], folder: Path, marks: Marks) -> list[Learnt]:
    """Agents are numbered game by game, seed by seed."""
    games, seeds = _who(settings)
    curves = learning_curves(rows, len(games) * len(seeds))
    scores = part(json_in(folder, RESULTS[AGENTS]), "scores")
    found = []
    for g, game in enumerate(games):
        measured = [_numbers(row) for row in _list(scores.get(game))]
        agents = []
        for s, seed in enumerate(seeds):
            x, y, episodes = curves[g * len(seeds) + s]
            line = thinned(Curve(x, y))
            agents.append(Agent(seed, line.x, line.y, episodes, measured[s] if s < len(measured) else []))
        known = [agent for agent in agents if agent.scores]
        best = max(known, key=lambda agent: sum(agent.scores) / len(agent.scores)).seed if known else None
        video = f"{game}.mp4" if file_in(folder, f"{Path(game).name}.mp4") else None
        found.append(Learnt(game, agents, best, marks(game), video))
    return found


class LearningCurve(NamedTuple):
    x: list[float]
    y: list[float]
    episodes: int


def learning_curves(rows: Iterable[Row], agents: int) -> list[LearningCurve]:
    """For each agent the mean score of the episodes it played lately, at each row in which one of them ended."""
    played: list[list[tuple[float, float]]] = [[] for _ in range(agents)]
    lines: list[tuple[list[float], list[float]]] = [([], []) for _ in range(agents)]
    for row in rows:
        ended = set()
        for episode in _list(row.get("episodes")):
            if len(_numbers(episode)) >= 2 and 0 <= episode[0] < agents and is_number(row.get("step")):
                played[int(episode[0])].append((row["step"], float(episode[1])))
                ended.add(int(episode[0]))
        for agent in ended:
            recent = [score for step, score in played[agent] if step > row["step"] - LATELY]
            lines[agent][0].append(row["step"])
            lines[agent][1].append(sum(recent) / len(recent))
    return [LearningCurve(*line, len(own)) for line, own in zip(lines, played, strict=True)]


class Way(NamedTuple):
    """Returns of one way to play."""

    way: str
    x: list[float]  # frames
    mean: list[float]
    std: list[float]
    percentiles: list[float]  # of the last returns, at SHARES
    episodes: int  # whose returns they are


class Explored(NamedTuple):
    """An exploration so far."""

    game: str | None
    frames: float | None
    ways: list[Way]
    shares: tuple[int, ...]
    gaps: Curve  # how much actions matter to each keypoint (Eq. 2), against frames
    keypoint: int | None  # to which they matter most
    avatar: Curve  # share of frames in which that keypoint is on what the player moves
    rooms: Curve  # that were entered while it was watched
    video: str | None


def explored(settings: dict[str, Any], rows: Iterable[Row], folder: Path) -> Explored:
    rows = [{**row, "step": row["frames"]} for row in rows if is_number(row.get("frames"))]
    curves = as_curves(rows)
    nothing = Curve([], [])
    gaps = curves.get("gaps", nothing)
    if not all(isinstance(row, list) for row in gaps.y):
        gaps = nothing  # not ours: one number is no keypoints
    newest = [-np.inf if gap is None else gap for gap in gaps.y[-1]] if gaps.y else []
    game = part(settings, "explore").get("game")
    return Explored(
        game=game if isinstance(game, str) else None,
        frames=rows[-1]["frames"] if rows else None,
        ways=[found for way in WAYS if (found := _way(way, rows)).x],
        shares=SHARES,
        gaps=thinned(gaps),
        keypoint=int(np.argmax(newest)) if newest else None,
        avatar=curves.get("avatar", nothing),
        rooms=curves.get("rooms", nothing),
        video="options.mp4" if file_in(folder, "options.mp4") else None,
    )


def _way(way: str, rows: list[Row]) -> Way:
    """Random actions are measured once and stay as they are: their line goes on to the last evaluation."""
    points: list[tuple[float, list[float]]] = []
    for row in rows:
        if not (returns := part(row, "returns")):
            continue
        measured = _numbers(returns.get(way)) or (points[-1][1] if points else [])
        if measured:
            points.append((row["frames"], measured))
    last = points[-1][1] if points else []
    return Way(
        way,
        [frames for frames, _ in points],
        [float(np.mean(returns)) for _, returns in points],
        [float(np.std(returns)) for _, returns in points],
        np.percentile(last, SHARES).tolist() if last else [],
        len(last),
    )


def news(settings: dict[str, Any], folder: Path, marks: Marks, known: str) -> dict[str, Any]:
    """All that the page of such a run shows; only a word where nothing changed since what is known."""
    kind = kind_of(settings)
    if kind not in RESULTS:
        return {"kind": kind}
    clips = sorted(path.name for path in folder.glob("*.mp4"))  # which come last
    state = repr([signature(folder / name) for name in ("metrics.jsonl", RESULTS[kind], *clips)])
    if state == known:
        return {"same": True}
    rows = read_rows(file_in(folder, "metrics.jsonl"))
    if kind == AGENTS:
        observation = part(settings, "keyqn").get("observation")
        found: Any = {"observation": observation, "games": learnt(settings, rows, folder, marks)}
    else:
        found = explored(settings, rows, folder)._asdict()
    return {"same": False, "signature": state, "kind": kind, **found}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbers(value: Any) -> list[float]:
    """A list of numbers, or an empty one."""
    return value if isinstance(value, list) and all(is_number(one) for one in value) else []
