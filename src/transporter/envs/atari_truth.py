"""Where the objects of six Atari games are, read from the console's 128 bytes of RAM.

Each game is a list of object names, the part of the screen that belongs to the game, and a function from RAM to one
box for each name: x, y of its upper left corner and its size, in pixels of the 160 × 210 screen. A row keeps its slot
in RAM for the whole episode, so an object that leaves on one side and returns on the other keeps its identity. Every
offset is checked against the pixels of real play in the tests.

What is visible decides: a box is cut to the field, the centre is that of the part left, and an object of which less
than a quarter is left (off screen, behind a border, parked at 0) counts as absent.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from transporter import coords
from transporter.envs.base import Truth
from transporter.errors import InputError

WIDTH, HEIGHT = 160, 210
Ram = UInt8[np.ndarray, "128"]
Screen = UInt8[np.ndarray, "210 160 3"]


class Box(NamedTuple):
    """Upper left corner and size, in screen pixels."""

    x: int
    y: int
    width: int
    height: int


class Field(NamedTuple):
    """The part of the screen in which objects can be seen; the rest is border, score or status."""

    left: int
    top: int
    right: int
    bottom: int


class Rules(NamedTuple):
    """All that is known of one game."""

    objects: tuple[str, ...]
    field: Field
    boxes: Callable[[list[int]], list[Box | None]]  # RAM as ints → one box for each object, None where it is not drawn


def _pong(r: list[int]) -> list[Box | None]:
    # A lost ball and an enemy that waits are parked at byte 0, which lies outside the field.
    return [Box(140, r[51] - 13, 4, 16), Box(16, r[50] - 15, 4, 16), Box(r[49] - 49, r[54] - 14, 2, 4)]


def _breakout(r: list[int]) -> list[Box | None]:
    # The picture ends at row 195; a lost ball falls on below it and is then parked at 0, above the field.
    return [Box(r[72] - 47, 189, 16, 4), Box(r[99] - 49, r[101] + 9, 2, 4)]


def _ms_pacman(r: list[int]) -> list[Box | None]:
    def sprite(x: int, y: int) -> Box:
        return Box(x - 13, y + 1, 10, 10)

    ghosts = r[19] + 1 if r[47] else 0
    return [
        sprite(r[10], r[16]),
        *(sprite(r[6 + i], r[12 + i]) if i < ghosts else None for i in range(4)),
        sprite(r[11], r[17]) if r[11] else None,
    ]


# Ms Pac-Man draws all ghosts with one sprite and shows those on a common line in turn: with four abreast each is on
# every fourth frame only. RAM does not tell which; the colours do: a ghost's own, then frightened and about to recover.
# The fruit takes its turn too, but changes its colours with the level: it counts as drawn while it is out.
GHOST_COLOURS = ((180, 122, 48), (84, 184, 153), (198, 89, 179), (200, 72, 72))
FRIGHTENED_COLOURS = ((66, 114, 194), (214, 214, 214))


def _ghosts_drawn(boxes: list[Box | None], screens: Sequence[Screen]) -> list[Box | None]:
    """The boxes without those of ghosts that none of the screens shows."""
    seen = list(boxes)
    for slot, own in enumerate(GHOST_COLOURS, start=1):
        box = boxes[slot]
        if box is not None and not any(_holds(screen, box, (own, *FRIGHTENED_COLOURS)) for screen in screens):
            seen[slot] = None
    return seen


def _holds(screen: Screen, box: Box, colours: Sequence[tuple[int, int, int]]) -> bool:
    patch = screen[max(box.y, 0) : box.y + box.height, max(box.x, 0) : box.x + box.width]
    return any(bool((patch == np.array(colour, np.uint8)).all(-1).any()) for colour in colours)


FROSTBITE_BORDER = 8  # columns on the left that the console blanks
COPIES = {
    0: (0,),
    1: (0, 16),
    2: (0, 32),
    3: (0, 16, 32),
}  # the video chip's repeats of one sprite, by its size register


def _frostbite(r: list[int]) -> list[Box | None]:
    sunk = r[107]  # rows under water, 18 when all of him is
    # In his igloo (row 0) he is not drawn.
    player = Box(r[102], r[100] + 29 + sunk, 8, 18 - sunk) if r[100] else None
    bear = Box(r[104] + 3, 58, 14, 16) if r[75] >= 3 else None  # lives from the fourth level on
    # From the second level on floes part in the middle and join again (r30): the centre stays.
    floes = [_wrapped(Box(r[31 + row] + 32 * i - 8, 174 - 26 * row, 24, 7)) for row in range(4) for i in range(3)]
    animals = []
    for row in range(4):
        shifts = COPIES[r[88 + row] & 3]
        here = [Box(r[84 + row] + shift, 160 - 26 * row, 8, 7) for shift in shifts]
        animals += here + [None] * (3 - len(here))
    return [player, bear, *floes, *animals]


def _wrapped(box: Box) -> Box:
    """Of a box that the right edge cuts in two, the piece of which more is visible."""
    x = box.x % WIDTH
    beyond = x + box.width - WIDTH
    if beyond - FROSTBITE_BORDER > WIDTH - x:
        return box._replace(x=0, width=beyond)
    return box._replace(x=x, width=min(box.width, WIDTH - x))


def _seaquest(r: list[int]) -> list[Box | None]:
    player = None if 0 < r[105] < 15 else Box(r[70], r[97] + 33, 16, 11)
    missile = Box(r[103], r[97] + 40, 8, 1) if r[103] else None
    patrol = Box(r[118], 46, 8, 8) if r[60] >= 2 and r[118] else None  # at the surface, in later rounds
    beat = r[1] // 4 % 16
    swim = min(beat, 15 - beat) - 4  # sharks go up and down by eight rows with the frame counter
    enemies, divers, torpedoes = [], [], []
    for lane in range(4):
        y = 141 - 24 * lane
        submarines = bool(r[89 + lane] & 4)
        sprite = Box(0, y - 1, 8, 11) if submarines else Box(0, y + swim, 8, 7)
        for i in range(3):
            drawn = r[36 + lane] >> (2 - i) & 1
            enemies.append(sprite._replace(x=(r[30 + lane] + 16 * i) % 256) if drawn else None)
        # One slot holds what goes with the lane's enemies: a diver beside sharks, a torpedo before submarines.
        divers.append(None if submarines else Box(r[71 + lane], y - 1, 8, 11))
        torpedoes.append(Box(r[71 + lane], y + 4, 8, 4) if submarines else None)
    return [player, missile, patrol, *enemies, *divers, *torpedoes]


# Montezuma draws the same bytes at other heights in some rooms: the y that byte 0 stands for, and the skull's x.
ITEM_BASE = {0: 310, 1: 353, 5: 309, 7: 310}
SKULL_BASE = {1: (32, 406), 5: (32, 358), 18: (-1, 309)}


def _montezuma_revenge(r: list[int]) -> list[Box | None]:
    room = r[3]
    dead = r[54] == 6  # after a fall: on his back, over the lower part of the box
    player = Box(r[42] - 1, 315 - r[43], 8, 13) if dead else Box(r[42] - 1, 308 - r[43], 8, 20)
    # The skull that kills him goes with him, at the end of his death throes (r55 counts them down).
    skull = None
    if room in SKULL_BASE and (r[67] & 2 or (r[55] and not dead)):
        x, y = SKULL_BASE[room]
        skull = Box(r[47] + x, y - r[46], 8, 13)
    # Type 0 is none; 1 ruby, 2 sword, 3 amulet, 4 key, 5 skull, 6 torch, 7-8 snake, 9-10 spider.
    item = Box(r[44] - 1, ITEM_BASE.get(room, 308) - r[45], 7, 15) if r[49] else None
    return [player, skull, item]


RULES: dict[str, Rules] = {
    "pong": Rules(("player", "enemy", "ball"), Field(0, 34, 160, 194), _pong),
    "breakout": Rules(("paddle", "ball"), Field(8, 32, 152, 195), _breakout),
    "ms_pacman": Rules(
        ("player", "ghost_0", "ghost_1", "ghost_2", "ghost_3", "fruit"), Field(0, 0, 160, 172), _ms_pacman
    ),
    "frostbite": Rules(
        (
            "player",
            "bear",
            *(f"floe_{row}_{i}" for row in range(4) for i in range(3)),
            *(f"animal_{row}_{i}" for row in range(4) for i in range(3)),
        ),
        Field(FROSTBITE_BORDER, 42, 160, 186),
        _frostbite,
    ),
    "seaquest": Rules(
        (
            "player",
            "missile",
            "patrol",
            *(f"enemy_{lane}_{i}" for lane in range(4) for i in range(3)),
            *(f"diver_{lane}" for lane in range(4)),
            *(f"torpedo_{lane}" for lane in range(4)),
        ),
        Field(8, 45, 160, 156),
        _seaquest,
    ),
    "montezuma_revenge": Rules(("player", "skull", "item"), Field(0, 47, 160, 190), _montezuma_revenge),
}


def objects(game: str) -> tuple[str, ...]:
    """Names of the rows of truth(); empty for a game without rules."""
    return RULES[game].objects if game in RULES else ()


def boxes(game: str, ram: Ram, screens: Iterable[Screen] = ()) -> list[Box | None]:
    """The visible part of each object, None where it is absent; see truth()."""
    rules = _rules(game)
    found = rules.boxes([int(byte) for byte in ram])
    shown = tuple(screens)
    if game == "ms_pacman" and shown:
        found = _ghosts_drawn(found, shown)
    return [box and _visible(box, rules.field) for box in found]


def truth(game: str, ram: Ram, screens: Iterable[Screen] = ()) -> Truth:
    """Centres and presence; given the screens that a frame is made of, what flickers is absent where none shows it."""
    found = boxes(game, ram, screens)
    pixels = np.array([(b.x + b.width / 2, b.y + b.height / 2) if b else (0, 0) for b in found], np.float32)
    return Truth(coords.from_pixels(pixels, WIDTH, HEIGHT), np.array([b is not None for b in found]))


def _frozen(ram: Ram) -> bool:
    """The last life of Frostbite has frozen to death."""
    return ram[76] == 0 and bool(ram[113] & 16)


# Ends of games that the emulator takes to go on: after some five hundred steps the console begins to play by itself,
# and actions do nothing any more until the episode is cut.
UNNOTICED: dict[str, Callable[[Ram], bool]] = {"frostbite": _frozen}


def _rules(game: str) -> Rules:
    if game not in RULES:
        raise InputError(f"no ground truth for {game}: only for {', '.join(RULES)}")
    return RULES[game]


def _visible(box: Box, field: Field) -> Box | None:
    """The part of the box in the field, None where that is less than a quarter."""
    left, top = max(box.x, field.left), max(box.y, field.top)
    width = min(box.x + box.width, field.right) - left
    height = min(box.y + box.height, field.bottom) - top
    if width <= 0 or height <= 0 or 4 * width * height < box.width * box.height:
        return None
    return Box(left, top, width, height)
