"""Is the studio quick? A long clip in a real browser, many runs, a live curve, and the server's memory.

    python benchmarks/studio.py --out results/studio

Makes a clip of ten minutes at 1080p with FFmpeg's test picture and measures in headless Chromium how it plays. A few
seconds of it are dropped on the page and followed, for the rate. The whole would take an hour on two cores, most of it
for pixels that no one looks at here: its preview is made by FFmpeg itself, with the same settings, and the model, which
sees 80×80 pixels in the end, follows a small copy.
"""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import tyro
from playwright.sync_api import Page, sync_playwright

from transporter import load
from transporter.cli import leave
from transporter.cli.studio_track import BATCH, KEY_EVERY, preview_size
from transporter.envs.video import open_video
from transporter.report.tables import TrackWriter
from transporter.results import Result
from transporter.runs import Run
from transporter.tracking.track import track

MODEL = "pong"
TRACKED = 4  # seconds of video that are followed for the rate
# From the wish to the frame on the screen, as the browser itself sees it.
SCRUB = """async (wanted) => {
    const scrubber = document.querySelector(".scrubber");
    const video = document.querySelector("video");
    const took = [];
    for (const frame of wanted) {
        const begun = performance.now();
        scrubber.value = frame;
        scrubber.dispatchEvent(new Event("input"));
        await new Promise((resolve) => video.addEventListener("seeked", resolve, { once: true }));
        await new Promise(requestAnimationFrame);
        took.push(performance.now() - begun);
        await new Promise((resolve) => setTimeout(resolve, 60));
    }
    return took;
}"""


def make_clip(path: Path, seconds: int) -> None:
    ffmpeg = shutil.which("ffmpeg")
    assert ffmpeg, "this benchmark makes its clip with the ffmpeg command"
    source = f"testsrc2=size=1920x1080:rate=25:duration={seconds}"
    encode = ["-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p"]
    subprocess.run([ffmpeg, "-v", "error", "-y", "-f", "lavfi", "-i", source, *encode, path], check=True)


def make_followed(folder: Path, clip: Path) -> None:
    """The folder that tracking leaves, but for the labelled clip."""
    folder.mkdir(parents=True)
    ffmpeg = shutil.which("ffmpeg")
    assert ffmpeg
    width, height = preview_size(1920, 1080)
    options = f"-vf scale={width}:{height} -c:v libx264 -crf 23 -preset veryfast -g {KEY_EVERY} -bf 0 -tune fastdecode"
    options += " -pix_fmt yuv420p -movflags faststart"
    copy, small = folder / "small.mp4", "-vf scale=160:90 -c:v libx264 -crf 12 -preset ultrafast -pix_fmt yuv420p"
    made: list[str | Path] = [*options.split(), folder / "preview.mp4", *small.split(), copy]
    subprocess.run([ffmpeg, "-v", "error", "-y", "-i", clip, *made], check=True)
    detector, count = load(MODEL, "cpu"), 0
    with open_video(copy) as video, TrackWriter(folder / "tracks.parquet", 1920, 1080) as table:
        for seen in track(video, detector, BATCH):
            table.add(seen.index, seen.time, seen.points)
            count += 1
    copy.unlink()
    card = {"name": clip.name, "model": MODEL, "width": 1920, "height": 1080, "frames": count}
    more = {"keypoints": detector.keypoints, "sigma": detector.config.sigma, "damaged": 0, "started": 0}
    (folder / "clip.json").write_text(json.dumps(card | more))


def resident(process: int) -> float:
    """Megabytes that a process holds, at most so far."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) / 1024


def follow(page: Page, clip: Path, model: str) -> float:
    """Drop the clip and wait until it is followed; seconds."""
    page.evaluate("location.hash = '#/clips'")
    page.locator("select").select_option(model)
    begun = time.perf_counter()
    page.locator("input[type=file]").set_input_files(clip)
    page.locator(".clip", has_text=clip.name).get_by_role("link", name="Watch").wait_for(timeout=600_000)
    return time.perf_counter() - begun


def first_frame(page: Page, base: str, place: str) -> float:
    """Seconds from opening the clip's page to the first frame that moves."""
    page.goto(f"{base}/#/runs")
    page.wait_for_selector(".welcome, table.runs")
    begun = time.perf_counter()
    page.evaluate(f"location.hash = {json.dumps(place)}")
    while not page.evaluate("(document.querySelector('video')?.currentTime ?? 0) > 0.04"):
        time.sleep(0.01)
    return time.perf_counter() - begun


def scrub(page: Page, frames: int) -> list[float]:
    """Milliseconds of jumps all over the clip, and of small ones as a hand on the scrubber makes them."""
    page.locator(".scrubber").fill("10")
    page.wait_for_timeout(500)
    far = [(i * 7919) % frames for i in range(1, 41)]
    near = [frames // 3 + 3 * i for i in range(40)]
    return page.evaluate(SCRUB, far + near)


def list_runs(page: Page, root: Path, count: int) -> float:
    """Seconds until so many runs are on the page, none of which the server has seen."""
    text = "".join(json.dumps({"step": i, "loss": 1 / (i + 1), "travel": [0.1] * 5}) + "\n" for i in range(5_000))
    page.evaluate("location.hash = '#/play'")
    page.wait_for_selector(".playing")
    for i in range(count):
        run = Run.create(root / "many" / f"run{i}", {"environment": "pong", "config": {"steps": 9_000}})
        (run.path / "metrics.jsonl").write_text(text)
    begun = time.perf_counter()
    page.evaluate("location.hash = '#/runs'")
    while page.evaluate("document.querySelectorAll('table.runs tbody tr').length") < count:
        time.sleep(0.01)
    return time.perf_counter() - begun


def live(page: Page, base: str, root: Path, lines: int = 10) -> list[float]:
    """Seconds from a new line in metrics.jsonl to the line on the page."""
    run = Run.create(root / "live", {"environment": "pong"})
    run.log({"step": 0, "loss": 1.0})
    page.goto(f"{base}/#/run/live")
    label = "document.querySelector('figure.chart canvas')?.getAttribute('aria-label') ?? ''"
    took = []
    for i in range(1, lines + 1):
        page.wait_for_timeout(370)
        run.log({"step": i, "loss": i / 1000})
        begun = time.perf_counter()
        while f" {i / 1000:g}" not in page.evaluate(label):
            time.sleep(0.01)
        took.append(time.perf_counter() - begun)
    return took


def measure(work: Path, seconds: int, runs: int) -> dict[str, Any]:
    root = work / "runs"
    root.mkdir(parents=True, exist_ok=True)
    long, short = work / f"clip-{seconds}s.mp4", work / f"clip-{TRACKED}s.mp4"
    for clip, length in ((long, seconds), (short, TRACKED)):
        if not clip.exists():
            make_clip(clip, length)
    if not (root / "clips" / "long").exists():
        make_followed(root / "clips" / "long", long)
    command = [sys.executable, "-m", "transporter", "studio", str(root), "--port", "0", "--json", "--device", "cpu"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        assert server.stdout is not None
        address = json.loads("".join(server.stdout.readline() for _ in range(4)))["address"]
        base = address.partition("/?")[0]
        chromium = shutil.which("chromium") or shutil.which("google-chrome")
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        page.goto(address)
        page.wait_for_selector("header.top")
        found: dict[str, Any] = {}
        found["starts"] = [first_frame(page, base, "#/clip/long") for _ in range(3)]
        found["scrubs"] = scrub(page, 25 * seconds)
        found["server_mb_while_playing"] = resident(server.pid)
        found["list_seconds"] = list_runs(page, root, runs)
        found["live"] = live(page, base, root)
        found["tracked_frames_per_second"] = 25 * TRACKED / follow(page, short, f"shipped:{MODEL}")
        found["server_mb"] = resident(server.pid)
        browser.close()
        server.terminate()
    return found


def main(
    out: Path = Path("results/studio"), work: Path = Path("runs/benchmark-studio"), seconds: int = 600, runs: int = 200
) -> None:
    """Measure, and write one JSON file. Clips that are in `work` already are taken as they are."""
    for stale in (
        "many",
        "live",
        *(str(path.relative_to(work / "runs")) for path in work.glob(f"runs/clips/clip-{TRACKED}s-*")),
    ):
        shutil.rmtree(work / "runs" / stale, ignore_errors=True)
    found = measure(work, seconds, runs)
    scrubs, starts, lives = found.pop("scrubs"), found.pop("starts"), found.pop("live")
    figures = {
        **found,
        "start_playing_seconds_worst": max(starts),
        "scrub_ms_median": median(scrubs),
        "scrub_ms_p95": sorted(scrubs)[int(0.95 * len(scrubs))],
        "scrub_ms_worst": max(scrubs),
        "live_seconds_worst": max(lives),
    }
    config = {
        "clip": f"1920x1080, 25 frames a second, {seconds} s",
        "runs": runs,
        "model": MODEL,
        "dropped": f"{TRACKED} s",
    }
    result = Result(
        "studio",
        {name: round(float(value), 3) for name, value in figures.items()},
        config,
        seeds={},
        device="cpu",
        command="python benchmarks/studio.py --out results/studio",
        details={"scrub_ms": [round(value, 1) for value in scrubs], "start_seconds": [round(v, 3) for v in starts]},
    )
    result.write(out / "studio.json")
    for name, value in result.figures.items():
        print(f"{name:32} {value:g}")


if __name__ == "__main__":
    leave(lambda: tyro.cli(main))
