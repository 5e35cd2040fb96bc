"""Dropped videos and the processes that follow them; the process here is a small script that speaks their language."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from transporter.report.studio import clips
from transporter.report.studio.clips import Clips

LIMIT = 2**20
# Says that its file is a video, waits to be told to begin, and is never done.
SLOW = """
import json, pathlib, sys, time
time.sleep({opening})
print(json.dumps({{"opened": {{"frames": 10}}}}), flush=True)
sys.stdin.readline()
(pathlib.Path(sys.argv[1]).parent / ".labelled.1.part.mp4").write_bytes(b"half")
time.sleep(60)
"""


async def body() -> AsyncIterator[bytes]:
    yield b"a video"


def tracker(opening: float = 0.0) -> tuple[str, ...]:
    return (sys.executable, "-c", SLOW.format(opening=opening))


def test_a_studio_that_ends_leaves_nothing_half_written(run_async, tmp_path: Path) -> None:
    async def ends_while_tracking() -> None:
        made = Clips(tmp_path, tracker(), LIMIT)
        work = await made.take("a.mp4", "m", "m", body(), None)
        while not list(work.folder.glob(".*.part.*")):
            await asyncio.sleep(0.02)
        await made.close()

    run_async(asyncio.wait_for(ends_while_tracking(), 30))
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["source.mp4"]


def test_videos_that_come_at_once_are_opened_in_turn_each_in_its_own_time(
    run_async, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clips, "OPENING", 4.0)

    async def eight_at_once() -> list[str]:
        made = Clips(tmp_path, tracker(opening=1.5), LIMIT)
        taken = await asyncio.gather(*(made.take(f"{i}.mp4", "m", "m", body(), None) for i in range(8)))
        states = [work.state for work in taken]
        await made.close()
        return states

    states = run_async(asyncio.wait_for(eight_at_once(), 60))  # the last ones wait longer than any may take to open
    assert set(states) <= {"waiting", "tracking"}
