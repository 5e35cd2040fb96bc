"""Every rule against the pixels of real play: RAM says where an object is, its colours say where it is drawn."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from transporter import coords
from transporter.envs import atari_truth
from transporter.envs.atari import AtariEnv
from transporter.envs.atari_truth import Box, Field
from transporter.errors import InputError

Colour = tuple[int, int, int]


class Shot(NamedTuple):
    """One moment of a game."""

    ram: np.ndarray
    screens: np.ndarray  # (2, 210, 160, 3): the emulator's last two frames; RAM belongs to the second


class Look(NamedTuple):
    """What some objects of a game look like, and where on the screen nothing else does."""

    game: str
    objects: tuple[str, ...]  # how their names begin
    colours: tuple[Colour, ...]
    region: Field
    per_object: float = 1.0  # share of predicted boxes that must hold the colour; less where something may lie before


def keyboard(*keys: str, hold: int = 3) -> Callable[[AtariEnv, int, np.random.Generator], int]:
    """A policy that presses one of these keys at random for a few steps."""
    pressed = 0

    def policy(env: AtariEnv, step: int, rng: np.random.Generator) -> int:
        nonlocal pressed
        if step % hold == 0:
            pressed = env.scene.actions.index(keys[rng.integers(len(keys))])
        return pressed

    return policy


def follow_the_ball(env: AtariEnv, step: int, rng: np.random.Generator) -> int:
    """Breakout: play well enough to make holes in the wall."""
    paddle, ball = atari_truth.boxes("breakout", env.ale.getRAM())
    if ball is None or paddle is None or rng.random() < 0.1:
        return int(rng.integers(4))
    lead = ball.x - (paddle.x + paddle.width / 2)
    return 2 if lead > 2 else 3 if lead < -2 else 0


POLICIES = {
    "pong": keyboard("NOOP", "FIRE", "RIGHT", "LEFT"),
    "breakout": follow_the_ball,
    "ms_pacman": keyboard("UP", "RIGHT", "LEFT", "DOWN", hold=6),
    "frostbite": keyboard("UP", "DOWN", "UP", "DOWN", "RIGHT", "LEFT", "NOOP"),
    "seaquest": keyboard("DOWN", "DOWN", "RIGHTFIRE", "LEFTFIRE", "DOWNFIRE", "RIGHT", "LEFT", "UP", hold=4),
    "montezuma_revenge": keyboard("RIGHT", "LEFT", "DOWN", "UP", "RIGHTFIRE", "LEFTFIRE", hold=4),
}


@cache
def play(game: str) -> tuple[Shot, ...]:
    """Every second step of three episodes, or of what fits in 500 steps of each."""
    env, shots = AtariEnv(game, size=8), []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        env.reset(seed=seed)
        for step in range(500):
            _, _, over, _, _ = env.step(POLICIES[game](env, step, rng))
            if over:
                break
            if step % 2:
                shots.append(Shot(env.ale.getRAM(), env.screens.copy()))
    return tuple(shots)


class Finding(NamedTuple):
    boxes: int  # predicted
    empty: int  # of them, without a pixel of the right colour
    offset: np.ndarray  # (n, 2) from the box's centre to the middle of the colour, for objects that stand alone
    unexplained: int  # shots with the colour where no box is
    shots: int


def compare(shots: tuple[Shot, ...], look: Look, shift: tuple[int, int] = (0, 0)) -> Finding:
    names = atari_truth.objects(look.game)
    empty = total = unexplained = 0
    offsets = []
    for shot in shots:
        mask = painted(shot.screens[1], look)
        boxes = [
            moved(box, shift)
            for name, box in zip(names, atari_truth.boxes(look.game, shot.ram, shot.screens[1:]), strict=True)
            if box is not None and name.startswith(look.objects)
        ]
        left = mask.copy()
        for box in boxes:
            total += 1
            empty += not patch(mask, box, 0).any()
            patch(left, box, 3)[:] = False
            alone = not any(near(box, other, 8) for other in boxes if other is not box)
            if alone and inside(box, look.region, 5):
                rows, columns = np.nonzero(patch(mask, box, 5))
                if len(rows):
                    middle = np.array([columns.min() + columns.max() + 1, rows.min() + rows.max() + 1]) / 2
                    offsets.append(middle - 5 - np.array([box.width, box.height]) / 2)
        unexplained += bool(left.any())
    return Finding(total, empty, np.array(offsets).reshape(-1, 2), unexplained, len(shots))


def painted(screen: np.ndarray, look: Look) -> np.ndarray:
    mask = np.zeros(screen.shape[:2], bool)
    for colour in look.colours:
        mask |= (screen == np.array(colour)).all(-1)
    region = np.zeros_like(mask)
    region[look.region.top : look.region.bottom, look.region.left : look.region.right] = True
    return mask & region


def patch(mask: np.ndarray, box: Box, grow: int) -> np.ndarray:
    top, left = max(box.y - grow, 0), max(box.x - grow, 0)
    return mask[top : max(box.y + box.height + grow, 0), left : max(box.x + box.width + grow, 0)]


def moved(box: Box, shift: tuple[int, int]) -> Box:
    return box._replace(x=box.x + shift[0], y=box.y + shift[1])


def near(a: Box, b: Box, gap: int) -> bool:
    return (
        a.x < b.x + b.width + gap
        and b.x < a.x + a.width + gap
        and a.y < b.y + b.height + gap
        and b.y < a.y + a.height + gap
    )


def inside(box: Box, region: Field, gap: int) -> bool:
    return (
        box.x >= region.left + gap
        and box.x + box.width <= region.right - gap
        and box.y >= region.top + gap
        and box.y + box.height <= region.bottom - gap
    )


def agrees(finding: Finding, look: Look) -> bool:
    """Drawn where predicted, nowhere else, and centred within two pixels."""
    drawn = finding.empty <= (1 - look.per_object) * finding.boxes
    explained = finding.unexplained <= 0.01 * finding.shots
    centred = bool((np.abs(np.median(finding.offset, 0)) <= 2).all() and (np.abs(finding.offset) <= 3).mean() > 0.95)
    return drawn and explained and centred


FIELDS = {game: rules.field for game, rules in atari_truth.RULES.items()}
GHOSTS = atari_truth.GHOST_COLOURS
LOOKS = [
    Look("pong", ("player",), ((92, 186, 92),), FIELDS["pong"]),
    Look("pong", ("enemy",), ((213, 130, 74),), FIELDS["pong"]),
    Look("pong", ("ball",), ((236, 236, 236),), FIELDS["pong"]),
    # Above row 93 the ball takes the colours of the bricks.
    Look("breakout", ("paddle", "ball"), ((200, 72, 72),), Field(8, 93, 152, 195), per_object=0.8),
    Look("ms_pacman", ("player",), ((210, 164, 74),), FIELDS["ms_pacman"]),
    *(Look("ms_pacman", (f"ghost_{i}",), (GHOSTS[i],), FIELDS["ms_pacman"], per_object=0.7) for i in range(4)),
    Look("frostbite", ("player",), ((162, 98, 33), (198, 108, 58), (162, 162, 42)), Field(8, 50, 160, 186)),
    Look("frostbite", ("floe",), ((214, 214, 214), (84, 138, 210)), Field(8, 80, 160, 186)),
    Look("frostbite", ("animal",), ((132, 144, 252), (111, 210, 111)), Field(8, 80, 160, 186)),
    Look("seaquest", ("player", "missile"), ((187, 187, 53),), Field(8, 58, 160, 156), per_object=0.8),
    Look("seaquest", ("enemy",), ((92, 186, 92), (170, 170, 170)), FIELDS["seaquest"]),
    Look("seaquest", ("diver", "torpedo"), ((66, 72, 200),), Field(8, 60, 160, 156)),
    Look("montezuma_revenge", ("player",), ((200, 72, 72), (228, 111, 111)), FIELDS["montezuma_revenge"]),
    Look("montezuma_revenge", ("skull",), ((236, 236, 236),), FIELDS["montezuma_revenge"]),
    Look("montezuma_revenge", ("item",), ((232, 204, 99),), Field(0, 95, 40, 130)),
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look.game}-{'+'.join(look.objects)}")
def test_objects_are_where_their_colours_are(look: Look) -> None:
    finding = compare(play(look.game), look)
    print(look.game,look.objects,finding.boxes,'empty',finding.empty,'offset',np.median(finding.offset,0) if len(finding.offset) else None,len(finding.offset),(np.abs(finding.offset)<=3).mean(), 'unexplained',finding.unexplained,finding.shots)
    assert agrees(finding, look), finding
    for shift in ((4, 0), (-4, 0), (0, 4), (0, -4)):
        assert not agrees(compare(play(look.game), look, shift), look), f"a shift by {shift} goes unnoticed"
