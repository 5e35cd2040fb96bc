"""What a folder of results says together: methods side by side, and how good a choice without labels is."""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from transporter.errors import InputError
from transporter.models.pixels import FLOOR
from transporter.tracking.metrics import TrackingCurve
from transporter.tracking.results import HEADLINES, Evaluation
from transporter.training.recipes import recipe
from transporter.training.select import Candidate, choose, ranked


@dataclass(frozen=True)
class Measurement:
    """One result file."""

    name: str
    environment: str
    recipe: str
    data: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Measurement":
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            environment, rest = data["name"].split("-", 1)  # a recipe's numbers may have a minus of their own
            recipe, _ = rest.rsplit("-", 1)
            found = cls(data["name"], environment, recipe, data)
            _ = found.candidate, found.truth
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a measured experiment: {error}") from None
        return found

    @property
    def figures(self) -> dict[str, float]:
        return self.data["figures"]

    @property
    def seed(self) -> int:
        return self.data["seeds"]["train"]

    @property
    def train(self) -> dict[str, Any]:
        config = self.data["config"]
        return config.get("train", config)  # the first results had nothing else in their configuration

    @property
    def model(self) -> dict[str, Any]:
        return self.train["model"]

    @property
    def keypoints(self) -> int:
        return self.model["keypoints"]

    @property
    def all_alive(self) -> bool:
        return self.figures["alive"] == self.keypoints

    @property
    def evaluation(self) -> Evaluation:
        return Evaluation.from_json(self.data["evaluation"])

    @property
    def curve(self) -> TrackingCurve:
        return self.evaluation.curve

    @property
    def candidate(self) -> Candidate:
        """As training saw it."""
        step = self.figures.get("measured_step", self.figures["steps"])
        loss, alive = self.figures["validation_loss"], int(self.figures["alive"])
        error = self.figures.get("reconstruction_error")
        return Candidate(self.name, int(step), self.keypoints, loss, alive, error)

    @property
    def truth(self) -> float:
        """The share of the possible, over the lengths that every result names."""
        return mean(self.figures[f"precision_ratio@{n}"] for n in HEADLINES if f"precision_ratio@{n}" in self.figures)


def read_all(paths: Iterable[Path]) -> list[Measurement]:
    return [Measurement.read(path) for path in paths]


@dataclass(frozen=True)
class Group:
    """The seeds of one method on one environment."""

    environment: str
    recipe: str
    members: tuple[Measurement, ...]

    @property
    def title(self) -> str:
        with suppress(InputError):  # results outlive the recipes that they are named after
            return recipe(self.recipe).title
        return self.recipe

    @property
    def chosen(self) -> Measurement:
        """By its error on held-out pairs and its health alone."""
        name = choose([m.candidate for m in self.members]).name
        return next(m for m in self.members if m.name == name)

    def values(self, figure: str) -> list[float]:
        return [m.figures[figure] for m in self.members if figure in m.figures]

    def mean_ratio(self) -> np.ndarray:
        """Share of the possible at each length, over the seeds."""
        return np.mean([m.curve.ratio for m in self.members], axis=0)


def by_method(results: Sequence[Measurement]) -> list[Group]:
    """In the order in which environments and recipes come first."""
    found: dict[tuple[str, str], list[Measurement]] = defaultdict(list)
    for one in results:
        found[one.environment, one.recipe].append(one)
    return [Group(*key, tuple(sorted(members, key=lambda m: m.seed))) for key, members in found.items()]


def comparable(one: Measurement) -> Hashable:
    """Results whose losses can be compared: same frames, same pixels, as many keypoints, and rebuilt alike."""
    pixels = (one.model[name] for name in ("keypoints", "size", "standardise"))
    return one.environment, *pixels, one.model.get("floor", FLOOR), bool(one.train.get("carried"))


def flat_figures(groups: Sequence[Group]) -> dict[str, float]:
    """Of each method its mean, its worst and the seed chosen without labels; of the first, its lead over the others."""
    figures: dict[str, float] = {}
    for group in groups:
        head = f"{group.environment} {group.recipe}"
        names = [f"precision_ratio@{n}" for n in HEADLINES] + ["lowest_ratio", "mean_ratio"]
        names += ["precision@1", "recall@1", "precision@200", "recall@200"]
        for name in names:
            if values := group.values(name):
                figures |= {f"{head} {name} mean": mean(values), f"{head} {name} worst": min(values)}
                figures[f"{head} {name} chosen"] = group.chosen.figures[name]
        figures[f"{head} lowest of mean ratio"] = float(np.nanmin(group.mean_ratio()))
        figures[f"{head} chosen seed"] = group.chosen.seed
        figures[f"{head} seeds"] = len(group.members)
        figures[f"{head} seeds all alive"] = sum(m.all_alive for m in group.members)
        for name in ("seconds", "steps_per_second", "steps", "reconstruction_error", "error_of_copying"):
            if values := group.values(name):
                figures[f"{head} {name} mean"] = mean(values)
    return {name: round(value, 6) for name, value in (figures | leads(groups)).items() if math.isfinite(value)}


def leads(groups: Sequence[Group]) -> dict[str, float]:
    """By how much the first method of each environment is ahead of each other, at the length where it is least."""
    figures = {}
    for environment in dict.fromkeys(group.environment for group in groups):
        first, *others = [group for group in groups if group.environment == environment]
        for other in others:
            lead = float(np.nanmin(first.mean_ratio() - other.mean_ratio()))
            figures[f"{environment} {first.recipe} least lead over {other.recipe}"] = lead
    return figures


class Agreement(NamedTuple):
    """How well the choice without labels agrees with the truth, over groups of at least two."""

    groups: int
    rank_correlation: float  # Spearman's, mean over the groups whose truth differs; NaN where there is none
    chosen: float  # share of the possible: of the choice, of the best, of one taken at random; means over groups
    best: float
    random: float

    @property
    def regret(self) -> float:
        return self.best - self.chosen


def agreement(
    results: Sequence[Measurement], key: Callable[[Measurement], Hashable] = lambda m: (m.environment, m.recipe)
) -> Agreement:
    """Judge the judge."""
    from scipy.stats import spearmanr

    groups: dict[Hashable, list[Measurement]] = defaultdict(list)
    for one in results:
        groups[key(one)].append(one)
    correlations, chosen, best, random = [], [], [], []
    for members in (members for members in groups.values() if len(members) > 1):
        order = [c.name for c in ranked([m.candidate for m in members])]
        truths = [round(m.truth, 2) for m in members]  # less than that is chance: which episodes were played
        chosen.append(truths[[m.name for m in members].index(order[0])])
        best.append(max(truths))
        random.append(mean(truths))
        if np.ptp(truths) > 0:
            places = [-order.index(m.name) for m in members]
            correlations.append(float(spearmanr(places, truths).statistic))
    if not chosen:
        raise InputError("agreement needs at least two results that can be compared")
    correlation = mean(correlations) if correlations else math.nan
    return Agreement(len(chosen), correlation, mean(chosen), mean(best), mean(random))
