"""Dropped videos: taken in with limits, followed by a process of their own, kept in a folder each.

clips/NAME-ID/      under the root
  clip.json         what is known of it; written last, so that a clip without it was never finished
  source.*          as it was dropped
  tracks.parquet    all keypoints
  preview.mp4       small, with many key frames: starts at once and jumps quickly
  labelled.mp4      full size, keypoints drawn in

What a stranger's file does to a decoder stays in that process. It says in lines of JSON how it goes: {"opened": …},
then waits for a line before the long work, then {"done": n} now and then, and {"finished": …} or {"error": "…"}.
"""

import asyncio
import contextlib
import json
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from transporter.files import parse_json
from transporter.report.studio.answers import Refused, not_found
from transporter.report.studio.inside import file_in

OPENING = 60.0  # seconds for a file to show that it is a video …
OPENERS = 2  # … of which so many may try at once: the others' time has not begun
MOST_WAITING = 8  # clips that wait or are being followed
SPARE = 2**30  # bytes of the disk that are left alone


@dataclass
class Work:
    """A clip on its way."""

    id: str
    folder: Path
    name: str
    model: str
    state: str = "opening"  # opening, waiting, tracking, failed
    done: int = 0
    total: int | None = None
    line: str | None = None
    started: float = field(default_factory=time.time)
    process: asyncio.subprocess.Process | None = None
    task: asyncio.Task[None] | None = None

    def to_json(self) -> dict[str, Any]:
        names = ("id", "name", "model", "state", "done", "total", "line", "started")
        return {name: getattr(self, name) for name in names}


class Clips:
    """All clips under a root, and those that are being followed now."""

    def __init__(self, root: Path, tracker: tuple[str, ...], largest: int) -> None:
        self.folder, self.tracker, self.largest = root / "clips", tracker, largest
        self.working: dict[str, Work] = {}
        self._one_at_a_time = asyncio.Lock()
        self._openers = asyncio.Semaphore(OPENERS)

    # Those that are there

    def paths(self) -> dict[str, Path]:
        if not self.folder.is_dir() or self.folder.is_symlink():
            return {}
        return {path.name: path for path in sorted(self.folder.iterdir()) if path.is_dir() and not path.is_symlink()}

    def list(self) -> list[dict[str, Any]]:
        """Newest first; one that was never finished says so."""
        found = [work.to_json() for work in self.working.values()]
        for name, path in self.paths().items():
            if name not in self.working:
                found.append({"id": name, **self._card(path)})
        return sorted(found, key=lambda clip: -(clip.get("started") or 0))

    def card(self, clip: str) -> dict[str, Any]:
        if clip in self.working:
            return self.working[clip].to_json()
        return {"id": clip, **self._card(self.path(clip))}

    def _card(self, path: Path) -> dict[str, Any]:
        try:
            card = parse_json((path / "clip.json").read_text(encoding="utf-8"))
            if isinstance(card, dict):
                return {**card, "state": "done"}
        except (OSError, ValueError):
            pass
        name = re.sub(r"-[0-9a-f]{6}$", "", path.name)
        started = path.stat().st_mtime
        return {"name": name, "state": "broken", "line": "its tracking was interrupted", "started": started}

    def path(self, clip: str) -> Path:
        try:
            return self.paths()[clip]
        except KeyError:
            raise not_found(f"no clip named {clip!r}") from None

    def file(self, clip: str, name: str) -> Path:
        found = file_in(self.path(clip), name)
        if found is None:
            raise not_found(f"this clip has no {name} yet")
        return found

    async def delete(self, clip: str) -> None:
        """The clip and everything made of it; tracking that is under way ends."""
        folder = self.path(clip)
        if work := self.working.pop(clip, None):
            await self._end(work)
        shutil.rmtree(folder)

    # Those that come in

    async def take(self, name: str, model: str, source: str, body: AsyncIterator[bytes], length: int | None) -> Work:
        """Save an upload within limits, and begin; what is no video is refused and leaves nothing behind."""
        if sum(work.state != "failed" for work in self.working.values()) >= MOST_WAITING:
            raise Refused(429, f"{MOST_WAITING} clips are waiting already: let some finish first")
        if self.folder.is_symlink():
            raise Refused(409, "clips is a link: the studio only writes inside its own folder")
        self._check_size(length or 0)
        clip = f"{_slug(Path(name).stem)}-{secrets.token_hex(3)}"
        work = Work(clip, self.folder / clip, name[:200] or clip, model)
        work.folder.mkdir(parents=True)
        try:
            path = work.folder / f"source{_suffix(name)}"
            await self._save(path, body)
            self.working[clip] = work
            async with self._openers:
                await self._open(work, path, source)
        except BaseException:
            self.working.pop(clip, None)
            await self._end(work)
            shutil.rmtree(work.folder, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.folder.rmdir()  # if it is empty
            raise
        work.task = asyncio.create_task(self._follow(work))
        return work

    def _check_size(self, size: int) -> None:
        if size > self.largest:
            most = f"{self.largest / 1e9:.3g} GB"
            raise Refused(413, f"larger than {most}: start the studio with a higher --upload-limit")
        room = next(path for path in (self.folder, *self.folder.parents) if path.exists())
        if size + SPARE > shutil.disk_usage(room).free:
            raise Refused(413, "there is not enough room on the disk for this clip")

    async def _save(self, path: Path, body: AsyncIterator[bytes]) -> None:
        size = 0
        with path.open("wb") as file:
            async for part in body:
                if size // 2**26 != (size := size + len(part)) // 2**26 or size > self.largest:
                    self._check_size(size)
                await asyncio.to_thread(file.write, part)
        if not size:
            raise Refused(400, "the file is empty")

    async def _open(self, work: Work, path: Path, source: str) -> None:
        """Start the process and hear whether it is a video."""
        pipe = asyncio.subprocess.PIPE
        card = json.dumps({"name": work.name, "model": work.model, "started": work.started})
        command = (*self.tracker, str(path), source, card)
        work.process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=2**20
        )
        try:
            said = await asyncio.wait_for(self._hear(work), OPENING)
        except TimeoutError:
            raise Refused(422, "this file takes too long to open") from None
        if "opened" not in said:
            raise Refused(422, said.get("error", "not a video that can be read"))
        work.total, work.state = said["opened"].get("frames"), "waiting"

    async def _follow(self, work: Work) -> None:
        """The long part, one clip after another."""
        said: dict[str, Any] = {}
        try:
            async with self._one_at_a_time:
                assert work.process is not None
                assert work.process.stdin is not None
                work.state = "tracking"
                work.process.stdin.write(b"\n")
                while "finished" not in said and "error" not in said:
                    said = await self._hear(work)
                    work.done = said.get("done", work.done)
            await work.process.wait()
        finally:
            await self._end(work)
        if "finished" in said:
            self.working.pop(work.id, None)
        else:
            work.state, work.line = "failed", said.get("error")

    async def _hear(self, work: Work) -> dict[str, Any]:
        """The next line of its process."""
        assert work.process is not None
        assert work.process.stdout is not None
        line = await work.process.stdout.readline()
        try:
            said = json.loads(line)
        except ValueError:
            code = await work.process.wait()
            return {"error": f"the decoder gave up on this file (code {code})"}
        return said if isinstance(said, dict) else {}

    async def _end(self, work: Work) -> None:
        task = work.task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if work.process is not None and work.process.returncode is None:
            work.process.kill()
            await work.process.wait()
            for half in (*work.folder.glob(".*.part.*"), work.folder / "latest.jpg"):  # what it was writing
                half.unlink(missing_ok=True)

    async def close(self) -> None:
        """Processes end with the studio."""
        for work in list(self.working.values()):
            await self._end(work)


def _slug(name: str) -> str:
    """A folder's name that is safe everywhere."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "clip"


def _suffix(name: str) -> str:
    """FFmpeg looks at what is inside; the ending only helps with raw streams."""
    suffix = Path(name).suffix.lower()
    return suffix if re.fullmatch(r"\.[a-z0-9]{1,5}", suffix) else ""
