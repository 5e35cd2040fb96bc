"""The studio's routes. Nothing that a request says becomes part of a path: ids are looked up among what was found."""

import contextlib
import hashlib
import logging
import mimetypes
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from transporter.errors import InputError
from transporter.files import parse_json
from transporter.report.studio import control, shown
from transporter.report.studio.answers import Json, Refused, failed, not_found, packed
from transporter.report.studio.clips import Clips
from transporter.report.studio.folders import RunFolders
from transporter.report.studio.guard import Door, Guard
from transporter.report.studio.inside import file_in
from transporter.report.studio.parts import Parts
from transporter.report.studio.series import checked_cursor, read_update
from transporter.report.studio.watching import Episodes, Games, Models
from transporter.runs import NoRunError, Run

PAGE = Path(__file__).parent / "page"
LARGEST_BODY = 64 * 1024  # bytes of a JSON body
LARGEST_UPLOAD = 4 * 10**9
LENGTH = 240  # frames of an episode, unless said otherwise
log = logging.getLogger("transporter.studio")


def studio(root: Path, parts: Parts, door: Door, largest_upload: int = LARGEST_UPLOAD) -> Starlette:
    """The whole application over the run folders under `root`."""
    rooms = Rooms(root, parts, largest_upload)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await rooms.clips.close()
        rooms.games.close()

    return Starlette(
        routes=rooms.routes(),
        middleware=[Middleware(Guard, door=door)],
        exception_handlers={
            InputError: _refused,
            HTTPException: _http,
            ClientDisconnect: _gone,
            FileNotFoundError: _missing,
            NoRunError: _missing,
            500: _broken,
        },
        lifespan=lifespan,
    )


class Rooms:
    """What the routes share."""

    def __init__(self, root: Path, parts: Parts, largest_upload: int) -> None:
        self.parts = parts
        self.runs = RunFolders(root)
        self.models = Models(self.runs, parts)
        self.episodes = Episodes(self.models)
        self.games = Games(self.models)
        self.clips = Clips(self.runs.root, parts.tracker, largest_upload)
        self.page = {path.name: path for path in PAGE.iterdir() if path.is_file()}

    def routes(self) -> list[Route]:
        gets: dict[str, Callable[[Request], Any]] = {
            "/": lambda request: self._page(request, "index.html"),
            "/favicon.ico": lambda request: self._page(request, "icon.svg"),
            "/static/{name}": lambda request: self._page(request, request.path_params["name"]),
            "/api/runs": self.list_runs,
            "/api/run": self.run,
            "/api/rows": self.rows,
            "/api/tracking": self.tracking,
            "/api/control": self.control,
            "/api/video": self.run_video,
            "/api/models": self.list_models,
            "/api/episode": self.episode,
            "/api/features": self.features,
            "/api/reconstruction": self.reconstruction,
            "/api/clips": self.list_clips,
            "/api/clip": self.clip,
            "/api/clip/points": self.clip_points,
            "/api/clip/video": self.clip_video,
            "/api/clip/latest": self.clip_latest,
            "/api/clip/tracks": self.clip_tracks,
        }
        return [
            *(Route(path, endpoint, methods=["GET"]) for path, endpoint in gets.items()),
            Route("/api/clips", self.drop_clip, methods=["POST"]),
            Route("/api/clip", self.delete_clip, methods=["DELETE"]),
            Route("/api/play", self.begin_game, methods=["POST"]),
            Route("/api/play/{game}", self.step_game, methods=["POST"]),
            Route("/api/play/{game}", self.end_game, methods=["DELETE"]),
        ]

    def _page(self, request: Request, name: str) -> Response:
        if name not in self.page:
            raise not_found("no such page")
        content = self.page[name].read_bytes()
        etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=mimetypes.guess_type(name)[0], headers=headers)

    # Runs

    def list_runs(self, request: Request) -> Response:
        of = {"root": self.runs.root.name, "path": str(self.runs.root), "typed": self.runs.typed_root()}
        return Json({**of, "runs": self.runs.headlines()})

    def run(self, request: Request) -> Response:
        run = _given(request, "id")
        return Json({**shown.run(self.runs.headline(run), self.runs.path(run)), "typed": self.runs.typed(run)})

    def rows(self, request: Request) -> Response:
        path = self.runs.path(_given(request, "id"))
        cursor = checked_cursor(request.query_params.get("cursor", ""))
        return Json(read_update(file_in(path, "metrics.jsonl"), cursor))

    def tracking(self, request: Request) -> Response:
        runs = request.query_params.getlist("id")[:50]
        return Json({run: shown.tracking(self.runs.path(run)) for run in runs})

    def control(self, request: Request) -> Response:
        folder = self.runs.path(_given(request, "id"))
        known = request.query_params.get("known", "")
        return Json(control.news(Run.open(folder).settings, folder, self.parts.marks, known))

    def run_video(self, request: Request) -> Response:
        folder = self.runs.path(_given(request, "id"))
        name = _given(request, "name")
        if name not in shown.videos(folder):
            raise not_found("this run has no such video")
        return FileResponse(folder / name, media_type="video/mp4")

    # Models at work

    def list_models(self, request: Request) -> Response:
        names = ("id", "label", "environment", "chosen")
        models = [{name: getattr(model, name) for name in names} for model in self.models.names()]
        return Json({"models": models, "games": list(self.parts.games())})

    def episode(self, request: Request) -> Response:
        loaded, episode = self.episodes.get(*_episode(request))
        head, parts = shown.episode(loaded, episode)
        return packed(head, parts)

    def features(self, request: Request) -> Response:
        loaded, episode = self.episodes.get(*_episode(request))
        if loaded.features is None:
            raise Refused(409, "this kind of model gives points only: it has no features")
        head, parts = shown.features(loaded.features(episode.frames))
        return packed(head, parts)

    def reconstruction(self, request: Request) -> Response:
        loaded, episode = self.episodes.get(*_episode(request))
        if loaded.reconstruct is None:
            line = "a shipped model keeps only what detection needs: train a run to see what it paints"
            raise Refused(409, line)
        source, target = (_whole(request, name) for name in ("source", "target"))
        if not (0 <= source < len(episode.frames) and 0 <= target < len(episode.frames)):
            raise Refused(400, "no such frame in this episode")
        return packed(*shown.reconstruction(loaded.reconstruct, episode.frames[source], episode.frames[target]))

    # Games

    async def begin_game(self, request: Request) -> Response:
        wanted = await _body(request)
        model, game, seed = wanted.get("model"), wanted.get("game"), wanted.get("seed", 0)
        if not isinstance(model, str) or not (game is None or isinstance(game, str)) or type(seed) is not int:
            raise Refused(400, "a game needs a model, and may name a game and a seed")
        key, session = await run_in_threadpool(self.games.begin, model, game, seed % 2**31)
        view = await run_in_threadpool(session.view)
        return packed(*shown.game(view, {"id": key, **shown.scene(session)}))

    async def step_game(self, request: Request) -> Response:
        action = (await _body(request)).get("action")
        if type(action) is not int:
            raise Refused(400, "a step needs an action, a whole number")
        session = self.games.session(request.path_params["game"])
        return packed(*shown.game(await run_in_threadpool(session.step, action), {}))

    async def end_game(self, request: Request) -> Response:
        await run_in_threadpool(self.games.end, request.path_params["game"])
        return Json({})

    # Clips

    async def list_clips(self, request: Request) -> Response:
        return Json({"clips": self.clips.list(), "largest": self.clips.largest})

    async def clip(self, request: Request) -> Response:
        return Json(self.clips.card(_given(request, "id")))

    async def drop_clip(self, request: Request) -> Response:
        name = _given(request, "name")
        model = await run_in_threadpool(self.models.named, _given(request, "model"))
        length = request.headers.get("content-length", "")
        size = int(length) if length.isascii() and length.isdigit() else None
        work = await self.clips.take(name, model.label, str(model.source), request.stream(), size)
        return Json(work.to_json(), 202)

    async def delete_clip(self, request: Request) -> Response:
        await self.clips.delete(_given(request, "id"))
        return Json({})

    def clip_points(self, request: Request) -> Response:
        head, parts = shown.tracks(self.clips.file(_given(request, "id"), "tracks.parquet"))
        return packed(head, parts)

    def clip_video(self, request: Request) -> Response:
        clip, kind = _given(request, "id"), _given(request, "kind")
        if kind not in ("preview", "labelled"):
            raise not_found("a clip has a preview and a labelled video")
        path = self.clips.file(clip, f"{kind}.mp4")
        name = f"{clip}-labelled.mp4" if "download" in request.query_params else None
        return FileResponse(path, media_type="video/mp4", filename=name)

    def clip_latest(self, request: Request) -> Response:
        path = file_in(self.clips.path(_given(request, "id")), "latest.jpg")
        try:
            return Response(path.read_bytes() if path else b"", 200 if path else 204, media_type="image/jpeg")
        except OSError:  # tracking ended between the question and the answer
            return Response(status_code=204)

    def clip_tracks(self, request: Request) -> Response:
        clip = _given(request, "id")
        table = self.clips.file(clip, "tracks.parquet")
        made = shown.table(table, self.clips.card(clip), _given(request, "format"))
        return FileResponse(made, filename=f"{clip}{made.name.removeprefix('tracks')}")


def _given(request: Request, name: str) -> str:
    try:
        return request.query_params[name]
    except KeyError:
        raise Refused(400, f"the request lacks {name!r}") from None


def _whole(request: Request, name: str, default: int | None = None) -> int:
    text = request.query_params.get(name, "" if default is None else str(default))
    if not (text.isascii() and text.isdigit() and len(text) < 11):
        raise Refused(400, f"{name} must be a whole number")
    return int(text)


def _episode(request: Request) -> tuple[str, int, int]:
    return _given(request, "model"), _whole(request, "seed", 0), _whole(request, "frames", LENGTH)


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for part in request.stream():
        content += part
        if len(content) > LARGEST_BODY:
            raise Refused(413, "this request is too long")
    try:
        data = parse_json(content)
    except ValueError:
        raise Refused(400, "the body must be JSON") from None
    if not isinstance(data, dict):
        raise Refused(400, "the body must be a JSON object")
    return data


# Errors


def _refused(request: Request, error: Exception) -> Response:
    return failed(error.status if isinstance(error, Refused) else 400, str(error))


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return failed(error.status_code, error.detail)


def _gone(request: Request, error: Exception) -> Response:
    return failed(400, "the upload broke off")


def _missing(request: Request, error: Exception) -> Response:
    return failed(404, "it is not there any more")


def _broken(request: Request, error: Exception) -> Response:
    log.error("%s %s: %s", request.method, request.url.path, error)
    return failed(500, "something went wrong in the studio: its terminal says more")
