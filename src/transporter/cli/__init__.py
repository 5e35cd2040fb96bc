"""The command line: one file per verb, all of them thin. Heavy imports stay inside, so that --help is quick."""

import sys

import tyro

from transporter.cli.collect import collect
from transporter.cli.demo import demo
from transporter.cli.evaluate import evaluate
from transporter.cli.export import export
from transporter.cli.models import models
from transporter.cli.report import report
from transporter.cli.track import track
from transporter.cli.train import train
from transporter.errors import InputError

VERBS = {
    "demo": demo,
    "collect": collect,
    "train": train,
    "evaluate": evaluate,
    "track": track,
    "report": report,
    "models": models,
    "export": export,
}

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130


def main(arguments: list[str] | None = None) -> None:
    """Exit code 0 when all went well, 2 for bad input, 1 for work that failed, 130 after Ctrl-C."""
    try:
        tyro.extras.subcommand_cli_from_dict(
            VERBS,  # type: ignore[arg-type]
            prog="transporter",
            description="Keypoints that follow the moving things, from raw video, without labels.",
            args=arguments,
        )
    except InputError as error:
        _end(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        _end("interrupted; run the same command again to go on", INTERRUPTED)
    except OSError as error:
        _end(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", FAILED)
    except RuntimeError as error:
        if type(error).__module__.startswith("transporter."):
            _end(str(error), FAILED)
        raise


def _end(line: str, code: int) -> None:
    print(f"transporter: {' '.join(line.split())}", file=sys.stderr)
    sys.exit(code)
