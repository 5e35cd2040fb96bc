"""transporter studio: a page over the run folders."""

import errno
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from transporter.cli.given import Maybe, above_zero, device_named
from transporter.cli.stop import Terminated
from transporter.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from transporter.models.detector import Detector
    from transporter.report.studio.parts import Loaded, ModelName, Parts, Picture
    from transporter.runs import Run


def studio(
    folder: tyro.conf.Positional[Maybe[Path]] = None,
    /,
    host: str = "127.0.0.1",
    port: int = 8767,
    browser: bool = False,
    upload_limit: float = 4.0,
    device: str = "auto",
    json: bool = False,
) -> None:
    """Look at runs while they train, scrub through episodes, drop a video to have it tracked, play a game.

    Args:
        folder: Where the runs are; dropped videos are kept in its folder clips. By default runs.
        host: Whom to listen to: this machine alone, unless you name another of its addresses (0.0.0.0: all).
        port: Where to listen; 0 takes any that is free.
        browser: Open the page in your browser.
        upload_limit: Largest video that may be dropped, in GB.
        device: auto (the GPU where there is one), cpu, cuda or cuda:N.
        json: Print the address as JSON, for programs.
    """
    try:
        import uvicorn

        from transporter.report.studio.guard import Door
        from transporter.report.studio.server import studio as application
    except ImportError as error:
        raise InputError(f"the studio needs the extra `studio` ({error}): pip install 'transporter[studio]'") from None
    from transporter.cli.console import bold, print_json, say, warn

    if not 0 <= port < 2**16:
        raise InputError(f"--port must be between 0 and 65535, not {port}")
    above_zero(upload_limit=upload_limit)
    root = folder or Path("runs")
    if (folder and not folder.is_dir()) or (root.exists() and not root.is_dir()):
        raise InputError(f"{root} is not a folder")
    listening = _listen(host, port)
    door = Door(host, listening.getsockname()[1])
    app = application(root, parts(device_named(device)), door, int(upload_limit * 1e9))
    if door.open_to_others:
        warn("listening beyond this machine, unencrypted: whoever sees the address can use the studio")
    if json:
        print_json({"address": door.address, "folder": str(root.resolve())})
        sys.stdout.flush()
    say(f"studio: {bold(door.address)}  (Ctrl-C closes it)")
    if browser:
        import webbrowser

        webbrowser.open(door.address)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=32 * 1024,
    )
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except Terminated:
        raise
    except KeyboardInterrupt:  # the way to close a studio
        say("studio closed")


def _listen(host: str, port: int) -> socket.socket:
    """The door itself, before anything is loaded: a port that is taken ends in one line."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # only now is a port that is taken known to be
    except OSError as error:
        listening.close()
        other = "--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
        raise InputError(f"cannot listen on {host} port {port} ({error.strerror}): choose another {other}") from None
    return listening


def parts(device: str) -> "Parts":
    """The rooms that a report may not enter, handed in."""
    from functools import cache

    from transporter.control.keyqn.scores import published
    from transporter.envs import make, names
    from transporter.models.zoo import load, run_meant, shipped
    from transporter.report.studio.parts import ModelName, Parts

    @cache
    def shipped_names() -> "Sequence[ModelName]":
        found = {name: load(name, "cpu").card.get("environment") for name in shipped()}
        return [ModelName(f"shipped:{name}", f"{name} (shipped)", of, name) for name, of in found.items()]

    def loaded(source: str | Path) -> "Loaded":
        run = run_meant(source)
        detector = load(source, device)
        return _loaded(detector, _painter(run, device) if run else None)

    def marks(game: str) -> "dict[str, float]":
        known = {name: published(name, game) for name in ("random", "KeyQN (paper)", "human")}
        return {name: score for name, score in known.items() if score is not None}

    return Parts(
        shipped=shipped_names,
        load=loaded,
        make=make,
        games=cache(names),
        marks=marks,
        tracker=(sys.executable, "-m", "transporter.cli.studio_track", device),
    )


def _loaded(detector: "Detector", paint: "Callable[[Picture, Picture], Picture] | None") -> "Loaded":
    from transporter.report.studio.parts import Loaded

    config = detector.config
    return Loaded(
        points=detector,
        keypoints=detector.keypoints,
        size=config.size,
        sigma=config.sigma,
        environment=detector.card.get("environment"),
        step=detector.card.get("step"),
        features=(lambda frames: detector(frames, features=True)[1]) if config.has_features else None,
        reconstruct=paint,
    )


def _painter(run: "Run", device: str) -> "Callable[[Picture, Picture], Picture]":
    """The whole model of a run: the target as it paints it from the source."""
    import torch

    from transporter.models.factory import ModelConfig, build

    model = build(ModelConfig.from_json(run.settings["config"]["model"])).eval().to(device)
    model.load_state_dict(run.best().part("model."))

    @torch.inference_mode()
    def paint(source: "Picture", target: "Picture") -> "Picture":
        pair = (torch.from_numpy(image.copy())[None].to(device) for image in (source, target))
        return model.pixels.decode(model(*pair).prediction)[0].cpu().numpy()

    return paint
