"""Commands as real processes without the wait: this one imports what is heavy once, and forks for each of them.

A line of JSON in, one out: {"start": …} gives a process id, {"poll": id} its exit code or null, {"wait": id} the code.
"""

import json
import os
import resource
import signal
import sys
import traceback

import ale_py  # noqa: F401
import av  # noqa: F401
import gymnasium  # noqa: F401
import pyarrow.parquet  # noqa: F401
import scipy.optimize  # noqa: F401
import torch  # noqa: F401
import zarr  # noqa: F401

import transporter.control.keyqn.experiment
import transporter.control.options.experiment
import transporter.data.clips
import transporter.models.zoo
import transporter.report.html
import transporter.training.loop  # noqa: F401
from transporter.cli import main


def live(order: dict) -> int:
    """In the child: one command, from its first line to its exit code."""
    os.setsid()
    os.chdir(order["cwd"])
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{order['said']}.{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    if order["largest_file"]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (order["largest_file"], resource.RLIM_INFINITY))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        main(order["start"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def serve() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            answer: int | None = os.fork()
            if answer == 0:
                code = live(order)
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
        else:
            pid = order.get("wait") or order["poll"]
            found, status = os.waitpid(pid, 0 if "wait" in order else os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if found else None
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    serve()
