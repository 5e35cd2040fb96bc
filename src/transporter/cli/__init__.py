"""The command line: one file per verb, all of them thin. Heavy imports stay inside, so that --help is quick."""

import errno
import functools
import inspect
import io
import os
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr
from typing import Any, NoReturn

import tyro

from transporter.cli.collect import collect
from transporter.cli.demo import demo
from transporter.cli.evaluate import evaluate
from transporter.cli.explore import explore
from transporter.cli.export import export
from transporter.cli.keyqn import keyqn, settings_of_preset
from transporter.cli.models import models
from transporter.cli.report import report
from transporter.cli.reproduce import FIGURES, reproduce
from transporter.cli.stop import Terminated, terminate
from transporter.cli.studio import studio
from transporter.cli.track import track
from transporter.cli.train import train
from transporter.errors import InputError

VERBS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "collect": collect,
    "train": train,
    "evaluate": evaluate,
    "track": track,
    "keyqn": keyqn,
    "explore": explore,
    "report": report,
    "studio": studio,
    "models": models,
    "export": export,
    "reproduce": reproduce,
}
GROUPS = {"reproduce": FIGURES}  # verbs that have verbs of their own
PRESET = ("keyqn",)  # verbs, of either kind, whose other settings begin from a preset
TOGETHER = ("train", "explore")  # verbs that processes of one torchrun can share

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143
ALONE = 10  # seconds until one of several learners speaks for itself
DESCRIPTION = """Keypoints that follow the moving things, from raw video, without labels.

Exit code 0: done; 2: bad input, one line says which; 1: failed; 130 and 143: stopped by Ctrl-C or SIGTERM. Training
saves its state before it stops, collecting as it goes: run the same command again to go on."""

# A path that cannot be used is the user's to mend; a disk that is full or failing is not.
BAD_PATH = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST,
            errno.ENAMETOOLONG, errno.ELOOP}  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    leave(lambda: _parsed(sys.argv[1:] if arguments is None else arguments)())


def leave(work: Callable[[], object]) -> None:
    """Do the work; what goes wrong in a way that we know is one line and an exit code."""
    signal.signal(signal.SIGTERM, terminate)
    warnings.showwarning = _warn
    try:
        work()
    except InputError as error:
        _end(str(error), BAD_INPUT)
    except Terminated as stop:
        _end(str(stop), TERMINATED)
    except KeyboardInterrupt as stop:
        _end(str(stop) or "interrupted", INTERRUPTED)
    except OSError as error:
        line = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
        _end(line, BAD_INPUT if error.errno in BAD_PATH else FAILED)
    except MemoryError as error:
        _end(f"not enough memory: {error}", FAILED)
    except Exception as error:
        # Work that failed in a way that torch, safetensors or we can put into words: no memory, no room on the disk.
        known = type(error).__module__.startswith(("transporter.", "safetensors")) or "allocate memory" in str(error)
        if known:
            _end(str(error).splitlines()[0], FAILED)
        raise


def _parsed(arguments: list[str]) -> Callable[[], None]:
    """The command that the arguments ask for, ready to run; what they get wrong is one line."""
    prog, verbs = "transporter", VERBS
    several = "LOCAL_RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"
    if several and arguments[:1] and arguments[0] not in TOGETHER:
        raise InputError(f"torchrun is for {' and '.join(TOGETHER)}: run this once, without it")
    if arguments and arguments[0] in GROUPS:
        prog, verbs, arguments = f"transporter {arguments[0]}", GROUPS[arguments[0]], arguments[1:]
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(
                {
                    name: _put_off(verb, **settings_of_preset(arguments) if name in PRESET else {})
                    for name, verb in verbs.items()
                },
                prog=prog,
                description=DESCRIPTION if verbs is VERBS else None,
                args=arguments or ["--help"],
                config=(tyro.conf.DisallowNone, tyro.conf.PositionalMetavarFromFieldName),
            )
    except SystemExit as end:
        if end.code in (0, None):
            raise
        raise InputError(_one_line(said.getvalue())) from None


def _put_off(verb: Callable[..., None], **defaults: object) -> Callable[..., Callable[[], None]]:
    """The same signature and help, but for some defaults; the work waits until all arguments are known to be good."""

    @functools.wraps(verb)
    def ready(*positional: Any, **named: Any) -> Callable[[], None]:
        return functools.partial(verb, *positional, **named)

    signature = inspect.signature(verb)
    there = [p.replace(default=defaults.get(p.name, p.default)) for p in signature.parameters.values()]
    ready.__signature__ = signature.replace(parameters=there)  # type: ignore[attr-defined]
    return ready


def _one_line(box: str) -> str:
    """What the parser says in a box: without the box, its title, help texts and the way to more help."""
    inside = re.sub(r"\x1b\[[0-9;]*m", "", box).replace("│", "").splitlines()[1:-1]
    sections = re.split(r"─{5,}", " ".join(line for line in inside if "╰" not in line))
    said = [" ".join(section.split()).partition(" Got errors:")[0] for section in sections]
    line = " ".join(part for part in said if not part.startswith(("For full helptext", "Argument helptext")))
    return re.sub(r"^Error parsing __tyro-dummy-inner__\.(settings\.)?(\S+):", r"\2:", line)  # a name of the parser's


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    print(f"transporter: {message}", file=sys.stderr)


def _end(line: str, code: int) -> NoReturn:
    rank = os.environ.get("RANK", "0")
    if rank == "0":
        print(f"transporter: {' '.join(line.split())}", file=sys.stderr)
        sys.exit(code)
    if code == BAD_INPUT:
        # All are refused alike, and one voice is enough: torchrun ends the others with the first of them that ends, so
        # that one must not be this. Whoever is still here after a while was refused alone.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        time.sleep(ALONE)
    if code in (BAD_INPUT, FAILED):
        print(f"transporter, process {rank}: {' '.join(line.split())}", file=sys.stderr)
    sys.exit(code)
