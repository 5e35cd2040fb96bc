"""Results as files have them: read, and those of agents joined and compared, before they stand in one table."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from transporter.errors import InputError
from transporter.files import is_number, made_of, parse_json

if TYPE_CHECKING:
    from transporter.runs import Json


DETECTORS = "detectors learnt from"  # in a result's settings, by game


def gathered(out: Path, observations: list[str], games: list[str], more: list[str]) -> "dict[str, Json]":
    """What was measured of these observations, in the folder `out` and, for each OBSERVATION=FILE of `more`, there."""
    results = {name: measured(out / f"{name}.json", name) for name in observations}
    for given in more:
        name, _, file = given.partition("=")
        if name not in results or not file:
            raise InputError(f"--more {given}: say OBSERVATION=FILE, of {', '.join(observations)}")
        others = measured(Path(file), name)
        with made_of(Path(file)):
            results[name] = joined(results[name], others, Path(file), games)
    for name, result in results.items():
        if missing := [game for game in games if game not in result["scores"]]:
            raise InputError(f"{out / name}.json has no scores of {', '.join(missing)}")
    check_alike(results)
    return results


def measured(path: Path, name: str) -> "Json":
    """A result of before, of that observation, whichever games were played in it."""

    def check(found: "Json") -> None:
        for game in found["scores"]:
            if not all(is_number(found["figures"][f"{game} {what}"]) for what in ("mean", "std")):
                raise ValueError
            played(found, game)
        list(found.get("also", []))

    return result_at(path, f"keyqn {name}", "agents", check)


def result_at(path: Path, name: str, of: str, check: "Callable[[Json], None]") -> "Json":
    """The result of that name; `check` takes out what will be needed, and fails where it is not what it must be."""
    try:
        found = parse_json(path.read_bytes())
        check(found)
        told = found["name"]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not a result of {of}") from error
    if told != name:
        raise InputError(f"{path} says that it is {told}, not {name}")
    return found


def check_replaced(path: Path, name: str, new: "Json", games: list[str], seeds: list[int]) -> None:
    """Results that are there are written over by those of the same agents, and of more of them; by nothing else.

    `new`: settings and detectors of what will be written, as a result tells them.
    """
    if not path.exists():
        return
    try:
        found = measured(path, name)
        theirs = {game: _seeds(found, game, path) for game in found["scores"]}
    except InputError as error:
        raise InputError(f"{error}, and would be written over: name another --out") from error
    lost = {game: sorted({*own} - {*seeds} if game in games else {*own}) for game, own in theirs.items()}
    if told := [f"{game}: {', '.join(map(str, own))}" for game, own in lost.items() if own]:
        raise InputError(f"{path} has agents that these would not replace ({'; '.join(told)}): name another --out")
    if other := unlike(new, found, [game for game in games if game in theirs]):
        raise InputError(f"{path} has agents with other {other}: name another --out")


def unlike(ours: "Json", theirs: "Json", games: list[str]) -> str:
    """The first setting, or detector, that agents of these games do not share; nothing where there is none."""
    here, there = (_settings(each, games) for each in (ours, theirs))
    if other := sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name)):
        return f"settings: {other[0]}"
    eyes, their_eyes = (_detectors(each) for each in (ours, theirs))
    known = (game for game in games if game in eyes and game in their_eyes)
    other_eyes = [game for game in known if eyes[game]["weights"] != their_eyes[game]["weights"]]
    return f"detectors: {other_eyes[0]}" if other_eyes else ""


def sources(results: "dict[str, Json]") -> "Json":
    """Where each of them comes from, for a summary of them all."""
    heads = ("command", "commit", "machine", "torch", "date", "seeds", "config", "detectors", "also")
    return {name: {head: result[head] for head in heads if head in result} for name, result in results.items()}


def joined(result: "Json", more: "Json", path: Path, games: list[str]) -> "Json":
    """The same with more agents of some of these games, or of others, which learnt as its own did."""
    from transporter.control.keyqn.outcome import figures

    others = [game for game in games if game in more["scores"]]
    if not others:
        raise InputError(f"{path} has no scores of {', '.join(games)}")
    shared = [game for game in others if game in result["scores"]]
    if other := unlike(result, more, shared):
        raise InputError(f"{path}: its agents learnt with other {other}")
    seeds, scores = {game: _seeds(result, game, path) for game in result["scores"]}, dict(result["scores"])
    for game in others:
        new = _seeds(more, game, path)
        if both := set(seeds.get(game, [])) & set(new):
            raise InputError(f"{path}: seed {min(both)} is among the others already")
        seeds[game] = [*seeds.get(game, []), *new]
        scores[game] = [*scores.get(game, []), *more["scores"][game]]
        if len({len(episodes) for episodes in scores[game]}) > 1:
            raise InputError(f"{path}: its agents played {game} in another number of episodes")
    config, told = result.get("config"), dict(result["figures"])
    if isinstance(config, dict) and isinstance(config.get(DETECTORS), dict):
        config = {**config, DETECTORS: {**config[DETECTORS], **more["config"].get(DETECTORS, {})}}
    for game, agents in scores.items():
        told |= figures({game: agents}, seeds[game])
    also = [*result.get("also", []), {name: value for name, value in more.items() if name in ("command", "commit")}]
    eyes, their_eyes = (_detectors(each) for each in (result, more))
    kept = {game: eye for game, eye in eyes.items() if game not in shared or game in their_eyes}
    kept |= {game: their_eyes[game] for game in others if game not in shared and game in their_eyes}
    seen_by = {"detectors": kept} if kept or "detectors" in result else {}
    agents_of = {"scores": scores, "seeds": {"agents": seeds}}
    return {**result, "figures": told, "config": config, **agents_of, **seen_by, "also": also}


def _detectors(result: "Json") -> "Json":
    """By game, where they are known; results of version 0.1 do not tell."""
    found = result.get("detectors")
    told = found.items() if isinstance(found, dict) else ()
    return {game: eye for game, eye in told if isinstance(eye, dict) and "weights" in eye}


def _settings(result: "Json", games: list[str]) -> dict[str, object]:
    """By part and name; of detectors, those of these games."""
    from transporter.control.keyqn.config import KeyQNConfig

    config = result.get("config")
    flat: dict[str, object] = {}
    if isinstance(config, dict):
        with suppress(InputError):  # of settings that nobody knows, the words are compared
            config = {**config, **KeyQNConfig.from_json(config).to_json()}  # whichever version wrote them
    for part, value in config.items() if isinstance(config, dict) else ():
        for name, inner in value.items() if isinstance(value, dict) else (("", value),):
            if part != DETECTORS or name in games:
                flat[f"{part}.{name}"] = inner
    return flat


def _seeds(result: "Json", game: str, path: Path) -> list[int]:
    """Of the agents of a game: one list is of every game's, and where some were joined each game has its own."""
    told = result.get("seeds")
    seeds = told.get("agents") if isinstance(told, dict) else None
    seeds = seeds.get(game) if isinstance(seeds, dict) else seeds
    if not isinstance(seeds, list) or not all(type(seed) is int for seed in seeds):
        raise InputError(f"{path}: the seeds of some agents are not known")
    if len(seeds) != len(result["scores"][game]):
        raise InputError(f"{path}: {len(seeds)} seeds, and scores of {len(result['scores'][game])}")
    return seeds


def played(result: "Json", game: str) -> str:
    """How many agents, and how many episodes of each; ValueError where scores are no numbers."""
    agents = result["scores"][game]
    if not all(isinstance(episodes, list) and episodes and all(map(is_number, episodes)) for episodes in agents):
        raise ValueError
    return f"{len(agents)} × {len(agents[0])}"


def check_alike(results: "dict[str, Json]") -> None:
    """What stands in one table was learnt in as many steps of the same games, and played in the same way."""
    said: dict[str, tuple[str, object]] = {}
    for name, result in results.items():
        config = result.get("config")
        protocol = config.get("protocol") if isinstance(config, dict) else None
        for field in ("interactions", "sticky", "evaluation_epsilon"):
            if isinstance(protocol, dict) and field in protocol:
                other, value = said.setdefault(field, (name, protocol[field]))
                if value != protocol[field]:
                    raise InputError(f"not measured alike: {field} {value} in {other}, {protocol[field]} in {name}")
