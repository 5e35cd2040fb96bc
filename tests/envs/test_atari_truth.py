"""Every rule against the pixels of real play: RAM says where an object is, its colours say where it is drawn."""

from collections.abc import Callable, Iterable, Iterator
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
    drawn: float = 1.0  # share of predicted boxes that must hold the colour: less where RAM is ahead of the screen


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
def play(game: str, seeds: tuple[int, ...] = (0, 1, 2), first: int = 0, last: int = 300) -> tuple[Shot, ...]:
    """Every second step of an episode for each seed, from the first to the last given."""
    env, shots = AtariEnv(game, size=8), []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        env.reset(seed=seed)
        for step in range(last):
            _, _, over, _, _ = env.step(POLICIES[game](env, step, rng))
            if over:
                break
            if step % 2 and step >= first:
                shots.append(snap(env))
    return tuple(shots)


def snap(env: AtariEnv) -> Shot:
    return Shot(env.ale.getRAM(), env.screens.copy())


class View(NamedTuple):
    """One shot through one look."""

    mask: np.ndarray  # where the colours are
    boxes: list[Box]  # where the rules say


class Finding(NamedTuple):
    boxes: int  # predicted
    empty: int  # of them, without a pixel of the right colour
    offset: np.ndarray  # (n, 2) from the box's centre to the middle of the colour, for objects that stand alone
    unexplained: int  # shots with the colour where no box is
    shots: int


def views(shots: Iterable[Shot], look: Look) -> list[View]:
    names = atari_truth.objects(look.game)
    pairs = ((shot, atari_truth.boxes(look.game, shot.ram, shot.screens[1:])) for shot in shots)
    return [
        View(
            painted(shot.screens[1], look),
            [b for name, b in zip(names, boxes, strict=True) if b is not None and name.startswith(look.objects)],
        )
        for shot, boxes in pairs
    ]


def compare(views: list[View], look: Look, shift: tuple[int, int] = (0, 0)) -> Finding:
    empty = total = unexplained = 0
    offsets = []
    for mask, unmoved in views:
        boxes = [box._replace(x=box.x + shift[0], y=box.y + shift[1]) for box in unmoved]
        left = mask.copy()
        for box in boxes:
            patch(left, box, 3)[:] = False
            if inside(box, look.region, 0):
                total += 1
                empty += not patch(mask, box, 0).any()
            alone = not any(near(box, other, 8) for other in boxes if other is not box)
            if alone and inside(box, look.region, 5):
                rows, columns = np.nonzero(patch(mask, box, 5))
                if len(rows):
                    middle = np.array([columns.min() + columns.max() + 1, rows.min() + rows.max() + 1]) / 2
                    offsets.append(middle - 5 - np.array([box.width, box.height]) / 2)
        unexplained += bool(left.any())
    return Finding(total, empty, np.array(offsets).reshape(-1, 2), unexplained, len(views))


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


def disagreement(finding: Finding, look: Look) -> str:
    """What is wrong, if anything: drawn where predicted, nowhere else, and centred within two pixels."""
    if finding.boxes == 0 or len(finding.offset) < 10:
        return f"too little seen: {finding.boxes} boxes, {len(finding.offset)} alone"
    if finding.empty > (1 - look.drawn) * finding.boxes:
        return f"{finding.empty} of {finding.boxes} boxes are empty"
    if finding.unexplained > max(0.02, 1 - look.drawn) * finding.shots:
        return f"{finding.unexplained} of {finding.shots} shots show the colour where no box is"
    median, close = np.median(finding.offset, 0), (np.abs(finding.offset) <= 3).all(1).mean()
    if (np.abs(median) > 2).any() or close < 0.95:
        return f"off centre by {median} in the median, {close:.0%} within 3 pixels"
    return ""


FIELDS = {game: rules.field for game, rules in atari_truth.RULES.items()}
# Two columns at each side are left out where objects come and go: slivers of less than a quarter count as absent.
FROSTBITE, SEAQUEST = Field(10, 80, 158, 186), Field(10, 60, 158, 156)
LOOKS = [
    Look("pong", ("player",), ((92, 186, 92),), FIELDS["pong"]),
    Look("pong", ("enemy",), ((213, 130, 74),), FIELDS["pong"]),
    Look("pong", ("ball",), ((236, 236, 236),), FIELDS["pong"]),
    Look("breakout", ("paddle", "ball"), ((200, 72, 72),), Field(8, 93, 152, 195)),  # higher up the ball changes colour
    Look("ms_pacman", ("player",), ((210, 164, 74),), FIELDS["ms_pacman"], drawn=0.98),
    *(
        Look("ms_pacman", (f"ghost_{i}",), (own,), FIELDS["ms_pacman"])
        for i, own in enumerate(atari_truth.GHOST_COLOURS)
    ),
    Look("frostbite", ("player",), ((162, 98, 33), (198, 108, 58), (162, 162, 42)), Field(8, 50, 160, 186)),
    Look("frostbite", ("floe",), ((214, 214, 214), (84, 138, 210)), FROSTBITE),
    Look("frostbite", ("animal",), ((132, 144, 252), (111, 210, 111)), FROSTBITE),
    # Yellow, or white and black in turn while it sinks; at the surface the waves are in the way.
    Look("seaquest", ("player", "missile"), ((187, 187, 53), (236, 236, 236), (0, 0, 0)), SEAQUEST),
    Look("seaquest", ("enemy",), ((92, 186, 92), (170, 170, 170)), SEAQUEST),
    Look("seaquest", ("diver", "torpedo"), ((66, 72, 200),), SEAQUEST),
    # RAM is one frame ahead of the screen when he comes back to life.
    Look("montezuma_revenge", ("player",), ((200, 72, 72), (228, 111, 111)), FIELDS["montezuma_revenge"], drawn=0.97),
    Look("montezuma_revenge", ("skull",), ((236, 236, 236),), FIELDS["montezuma_revenge"], drawn=0.98),
    Look("montezuma_revenge", ("item",), ((232, 204, 99),), Field(0, 94, 40, 130)),
]


@pytest.mark.parametrize("look", LOOKS, ids=lambda look: f"{look.game}-{'+'.join(look.objects)}")
def test_objects_are_where_their_colours_are(look: Look) -> None:
    seen = views(play(look.game), look)
    assert disagreement(compare(seen, look), look) == ""
    for shift in ((4, 0), (-4, 0), (0, 4), (0, -4)):
        assert disagreement(compare(seen, look, shift), look), f"a shift by {shift} goes unnoticed"


def test_seaquest_submarines_and_torpedoes() -> None:
    shots = play("seaquest", seeds=(4,), first=600, last=700)
    for look in (
        Look("seaquest", ("enemy",), ((92, 186, 92), (170, 170, 170)), SEAQUEST),
        Look("seaquest", ("diver", "torpedo"), ((66, 72, 200),), SEAQUEST),
        Look("seaquest", ("torpedo",), ((66, 72, 200),), SEAQUEST, drawn=0.98),
    ):
        finding = compare(views(shots, look), look)
        if look.objects == ("torpedo",):  # divers are not explained here
            finding = finding._replace(unexplained=0)
        assert disagreement(finding, look) == ""


def test_ms_pacman_fruit_and_frightened_ghosts() -> None:
    shots = play("ms_pacman", seeds=(3,), first=470, last=690)
    ghosts = (*atari_truth.GHOST_COLOURS, *atari_truth.FRIGHTENED_COLOURS)
    frightened = Look("ms_pacman", ("ghost",), ghosts, FIELDS["ms_pacman"])
    assert disagreement(compare(views(shots, frightened), frightened), frightened) == ""
    # The fruit shares the ghosts' sprite, is cut by them, and hops: a looser check.
    fruit = Look("ms_pacman", ("fruit",), ((184, 50, 50),), FIELDS["ms_pacman"])
    finding = compare(views(shots, fruit), fruit)
    assert finding.boxes >= 50
    assert finding.empty <= 0.05 * finding.boxes
    assert (np.abs(np.median(finding.offset, 0)) <= 1).all()
    assert (np.abs(finding.offset) <= 4).all()


def poked(game: str, bytes_: dict[int, int], steps: int, wait: int = 40) -> Iterator[Shot]:
    """A game moved to where random play hardly comes, by writing into its RAM once; nothing is pressed."""
    env = AtariEnv(game, size=8)
    env.reset(seed=0)
    for step in range(wait + steps):
        if step == wait:
            for address, value in bytes_.items():
                env.ale.setRAM(address, value)
        env.step(0)
        if step >= wait + 5:  # the game needs some frames to draw a new room
            yield snap(env)


def test_seaquest_patrol_comes_in_later_rounds() -> None:
    look = Look("seaquest", ("patrol",), ((170, 170, 170),), Field(10, 41, 158, 60))
    shots = list(poked("seaquest", {60: 2, 118: 150}, steps=60))
    assert disagreement(compare(views(shots, look), look), look) == ""
    assert not any(view.boxes or view.mask.any() for view in views(play("seaquest"), look))  # none in the first round


@pytest.mark.parametrize(("room", "left"), [(1, 0), (5, 46), (18, 0)])  # room 5 has a white pole further to the left
def test_montezuma_skull_in_each_of_its_rooms(room: int, left: int) -> None:
    look = Look("montezuma_revenge", ("skull",), ((236, 236, 236),), Field(left, 47, 160, 190), drawn=0.95)
    finding = compare(views(poked("montezuma_revenge", {3: room}, steps=25), look), look)
    assert disagreement(finding, look) == ""


@pytest.mark.parametrize("room", [0, 2, 3, 5, 6, 7, 10, 14])
def test_montezuma_item_at_each_room_s_height(room: int) -> None:
    look = Look("montezuma_revenge", ("item",), ((232, 204, 99),), Field(8, 50, 22, 75))
    seen = views(poked("montezuma_revenge", {3: room}, steps=12), look)
    for mask, (box,) in seen:
        rows, columns = np.nonzero(mask)
        assert (columns.min(), columns.max() + 1) == (box.x, box.x + box.width)
        assert (rows.min(), rows.max() + 1) == (box.y, box.y + box.height)


def frostbite_level(level: int, steps: int) -> list[Shot]:
    """Finish the igloo of the level before, by writing into RAM, and wait at the next."""
    env = AtariEnv("frostbite", size=8)
    env.reset(seed=0)
    for _ in range(30):
        env.step(0)
    env.ale.setRAM(75, level - 1)
    env.ale.setRAM(77, 15)  # blocks
    shots = []
    for _ in range(200):
        env.ale.setRAM(102, 122)  # before the door
        env.step(env.scene.actions.index("UP"))
        shots.append(snap(env))
        if env.ale.getRAM()[75] == level:
            break
    for step in range(steps):
        env.ale.setRAM(102, 60)  # out of the bear's way
        env.ale.setRAM(104, 130 - step // 4)
        env.step(0)
        shots.append(snap(env))
    return shots


def test_frostbite_bear_igloo_and_flocks() -> None:
    shots = frostbite_level(7, steps=260)
    bear = Look("frostbite", ("bear",), ((214, 214, 214), (111, 111, 111)), Field(10, 53, 158, 79))
    assert disagreement(compare(views(shots, bear), bear), bear) == ""
    colours = ((132, 144, 252), (111, 210, 111), (213, 130, 74), (210, 210, 64))  # geese, crabs, clams
    flocks = Look("frostbite", ("animal",), colours, FROSTBITE)
    assert disagreement(compare(views(shots, flocks), flocks), flocks) == ""
    assert max(len(view.boxes) for view in views(shots, flocks)) >= 9  # three abreast in several rows
    player = next(look for look in LOOKS if look.game == "frostbite" and look.objects == ("player",))
    inside_igloo = [view for view in views(shots, player) if not view.boxes]
    assert inside_igloo
    assert not any(view.mask.any() for view in inside_igloo)


def test_a_floe_that_the_edge_cuts_is_its_larger_piece() -> None:
    def floe(x: int) -> tuple[int, int]:
        ram = np.zeros(128, np.uint8)
        ram[31] = (x + 8) % 160
        box = atari_truth.boxes("frostbite", ram)[2]
        assert box is not None
        return box.x, box.width

    assert floe(40) == (40, 24)
    assert floe(140) == (140, 20)  # four columns on the left, all behind the border
    assert floe(150) == (150, 10)  # of 14 on the left, the border leaves 6
    assert floe(153) == (8, 9)  # seven on the right, nine on the left
    assert floe(159) == (8, 15)


def test_ghosts_that_are_not_drawn_are_absent() -> None:
    absent = 0
    for shot in play("ms_pacman"):
        everywhere = atari_truth.truth("ms_pacman", shot.ram)
        drawn = atari_truth.truth("ms_pacman", shot.ram, shot.screens)
        np.testing.assert_array_equal(everywhere.centres[drawn.present], drawn.centres[drawn.present])
        assert not (drawn.present & ~everywhere.present).any()
        absent += int((everywhere.present & ~drawn.present).sum())
    assert absent > 50  # two frames of four show one of four ghosts abreast


def test_centres_by_hand() -> None:
    ram = np.zeros(128, np.uint8)
    ram[51], ram[49], ram[54] = (
        113,
        129,
        124,
    )  # player's box (140, 100) 4 × 16; ball's (80, 110) 2 × 4; enemy waits at 0
    truth = atari_truth.truth("pong", ram)
    assert truth.present.tolist() == [True, False, True]
    expected = coords.from_pixels(np.array([[142, 108], [81, 112]], np.float32), 160, 210)
    np.testing.assert_allclose(truth.centres[[0, 2]], expected)
    assert truth.centres.dtype == np.float32
    np.testing.assert_allclose(truth.centres[0], [142 / 80 - 1, 108 / 105 - 1], atol=1e-6)


def test_a_paddle_at_the_edge_is_what_can_be_seen_of_it() -> None:
    ram = np.zeros(128, np.uint8)
    ram[51] = 203  # the box would reach from row 190 to 206; the field ends at 194
    assert atari_truth.boxes("pong", ram)[0] == Box(140, 190, 4, 4)
    ram[51] = 204
    assert atari_truth.boxes("pong", ram)[0] is None  # three rows of sixteen: less than a quarter


def test_no_rules_no_truth() -> None:
    assert atari_truth.objects("space_invaders") == ()
    with pytest.raises(InputError, match="no ground truth for space_invaders"):
        atari_truth.truth("space_invaders", np.zeros(128, np.uint8))
