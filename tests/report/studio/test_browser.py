"""The studio in a real browser, as a person uses it.

TRANSPORTER_SHOTS=folder keeps the screenshots.
"""

import csv
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from transporter.runs import Run

from .conftest import Studio, make_run, no_sideways, until


def marks(page: Any) -> list[int]:
    """How many pixels of the overlay have about the colour of each of the first three keypoints."""
    return page.evaluate(
        """() => {
            const canvas = document.querySelector("canvas.marks");
            const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
            const colours = [[0xEE, 0x44, 0x44], [0x66, 0x22, 0xFF], [0x00, 0xCC, 0xFF]];
            return colours.map((colour) => {
                let count = 0;
                for (let i = 0; i < data.length; i += 4)
                    count += data[i + 3] > 250 && colour.every((part, c) => Math.abs(data[i + c] - part) < 6);
                return count;
            });
        }"""
    )


def test_open_pick_a_run_scrub_and_switch_a_keypoint(open_page) -> None:
    page = open_page()
    page.get_by_role("link", name="first", exact=True).click()
    page.wait_for_selector("figure.chart canvas")
    page.locator(".tabs").get_by_role("link", name="Watch").click()
    player = page.locator(".player")
    player.wait_for()
    scrubber = page.locator(".scrubber")
    scrubber.fill("50")
    until(page, "document.querySelector('.player').dataset.frame === '50'")
    assert "frame 50 / 239" in page.locator(".readout").inner_text()
    scrubber.press("ArrowRight")
    until(page, "document.querySelector('.player').dataset.frame === '51'")
    player.focus()
    page.keyboard.press("Shift+ArrowLeft")
    until(page, "document.querySelector('.player').dataset.frame === '41'")
    page.keyboard.press("h")
    assert page.get_by_role("checkbox", name="Heatmaps").is_checked()
    until(page, "document.querySelectorAll('.three img')[2].naturalWidth === 32")
    page.get_by_text("Features under the keypoints").click()
    until(page, "document.querySelector('canvas.features')?.width > 4")


def test_a_keypoint_can_be_switched_off_and_keeps_its_colour(open_page) -> None:
    page = open_page("watch?model=shipped%3Apong")
    page.wait_for_selector(".player")
    page.locator(".scrubber").fill("100")
    page.get_by_label("Length of trails").fill("0")
    page.get_by_label("Matches").uncheck()
    assert min(marks(page)) > 20  # a dot of each colour
    chip = page.locator(".chip").nth(1)
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    seen = marks(page)
    assert (seen[0] > 20, seen[1], seen[2] > 20) == (True, 0, True)
    page.locator(".player").focus()
    page.keyboard.press("1")  # the same by keyboard
    assert min(marks(page)) > 20
    page.keyboard.press("End")
    until(page, "document.querySelector('.player').dataset.frame === '239'")
    assert min(marks(page)) > 20


def overlay(page: Any) -> tuple[int, int, int]:
    """Of the marks over the picture: pixels that are white, that tint what shows through, and that are drawn at all."""
    return tuple(
        page.evaluate(
            """() => {
                const canvas = document.querySelector("canvas.marks");
                const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
                let [white, tint, any] = [0, 0, 0];
                for (let i = 0; i < data.length; i += 4) {
                    const [r, g, b, a] = data.subarray(i, i + 4);
                    white += a > 200 && r > 240 && g > 240 && b > 240;
                    tint += a > 70 && a < 170 && Math.max(r, g, b) > 60;
                    any += a > 0;
                }
                return [white, tint, any];
            }"""
        )
    )


def test_truth_matches_circles_heatmaps_and_trails_are_drawn(open_page) -> None:
    page = open_page("watch?model=shipped%3Apong")
    page.wait_for_selector(".player")
    page.locator(".scrubber").fill("100")
    page.get_by_label("Length of trails").fill("0")
    for name in ("Truth", "Matches"):
        page.get_by_label(name, exact=True).uncheck()
    white, _, plain = overlay(page)
    page.get_by_label("Truth", exact=True).check()
    assert overlay(page)[0] > white + 100  # white rings
    page.get_by_label("Truth", exact=True).uncheck()
    page.get_by_label("ε circles").check()
    assert overlay(page)[2] > plain + 300  # dashed circles as wide as ε
    page.get_by_label("ε circles").uncheck()
    page = open_page("watch?model=shipped%3Ams_pacman")
    page.wait_for_selector(".player")
    page.get_by_label("Length of trails").fill("0")
    for name in ("Truth", "Matches"):
        page.get_by_label(name, exact=True).uncheck()
    longest = 0
    for frame in range(0, 240, 20):  # keypoints are on their objects: most lines end under the dot they begin at
        page.locator(".scrubber").fill(str(frame))
        until(page, f"document.querySelector('.player').dataset.frame === '{frame}'")
        without = overlay(page)[2]
        page.get_by_label("Matches", exact=True).check()
        longest = max(longest, overlay(page)[2] - without)
        page.get_by_label("Matches", exact=True).uncheck()
        assert overlay(page)[2] == without
    assert longest > 20
    page.locator(".scrubber").fill("100")
    until(page, "document.querySelector('.player').dataset.frame === '100'")
    plain = overlay(page)[2]
    page.get_by_label("Length of trails").fill("40")
    assert overlay(page)[2] > plain + 100
    page.get_by_label("Length of trails").fill("0")
    page.get_by_role("checkbox", name="Heatmaps").check()
    assert overlay(page)[1] > 1_000  # the glow is a tint: what it lies on shows through
    corner = "document.querySelector('canvas.marks').getContext('2d').getImageData(2, 2, 1, 1).data[3]"
    assert page.evaluate(corner) < 80  # and far from it the picture is hardly dimmed


def test_two_runs_laid_over_one_another(open_page) -> None:
    page = open_page()
    for name in ("first", "nested/second"):
        page.get_by_label(f"Compare {name}", exact=True).check()
    page.get_by_role("link", name="Compare 2").click()
    page.wait_for_selector("section[aria-label=Tracking] figure.chart")
    page.wait_for_selector("section[aria-label=Training] figure.chart")
    legend = page.locator("section[aria-label=Tracking] figure.chart .legend").first.inner_text()
    assert "first" in legend
    assert "nested/second" in legend
    assert "run=first" in page.url
    page.locator(".picker").get_by_label("first", exact=False).first.uncheck()
    until(page, "!location.hash.includes('run=first')")


def test_drop_a_clip_scrub_it_and_download_its_table(open_page, clip: Path, tmp_path: Path) -> None:
    page = open_page("clips")
    page.locator("select").select_option("run:first")
    carried = page.evaluate_handle(
        """(bytes) => {
            const carried = new DataTransfer();
            carried.items.add(new File([new Uint8Array(bytes)], "bars.mp4", { type: "video/mp4" }));
            return carried;
        }""",
        list(clip.read_bytes()),
    )
    for kind in ("dragenter", "dragover", "drop"):
        page.dispatch_event(".zone", kind, {"dataTransfer": carried})
    page.locator(".clip").get_by_role("link", name="Watch").click(timeout=60_000)
    page.wait_for_selector(".player")
    page.locator(".scrubber").fill("37")
    until(page, "document.querySelector('.player').dataset.frame === '37'")
    # The picture itself says which frame it is: a white bar at column 2i.
    column = """() => {
        const video = document.querySelector("video");
        if (video.seeking || video.readyState < 2) return -1;
        const canvas = document.createElement("canvas");
        canvas.width = 128; canvas.height = 96;
        const pen = canvas.getContext("2d");
        pen.drawImage(video, 0, 0, 128, 96);
        const data = pen.getImageData(0, 48, 128, 1).data;
        const bright = [...Array(128).keys()].filter((x) => data[4 * x] > 150);
        return bright.length ? Math.round((bright[0] + bright.at(-1) + 1) / 2 - 2) / 2 : -1;
    }"""
    for frame in (37, 0, 59, 12):
        page.locator(".scrubber").fill(str(frame))
        until(page, f"({column})() === {frame}")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="CSV", exact=True).click()
    saved = tmp_path / "tracks.csv"
    waiting.value.save_as(saved)
    with saved.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 60 * 3
    assert waiting.value.suggested_filename.startswith("bars-")
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Labelled MP4").click()
    assert waiting.value.suggested_filename.endswith("-labelled.mp4")


def test_the_track_page_offers_a_model_that_makes_sense(open_page) -> None:
    page = open_page("clips")
    choice = page.locator("select")
    choice.wait_for()
    assert choice.input_value() == "run:nested/second"  # one's own, the chosen one
    page.get_by_text("This model was trained on sprites").wait_for()
    choice.select_option("shipped:pong")
    page.get_by_text("This model was trained on pong").wait_for()
    page.reload()
    choice.wait_for()
    assert choice.input_value() == "shipped:pong"  # what was used last


def test_a_file_that_is_no_video_says_so(open_page, tmp_path: Path) -> None:
    (tmp_path / "words.mp4").write_text("some words\n" * 50)
    page = open_page("clips")
    page.locator("input[type=file]").set_input_files(tmp_path / "words.mp4")
    page.get_by_text("Cannot be read as a video").wait_for()


def test_ten_seconds_of_pong(open_page) -> None:
    page = open_page("play")
    game = page.locator(".playing")
    game.wait_for()
    steps = lambda: int(game.get_attribute("data-steps") or 0)  # noqa: E731
    begun, first = time.monotonic(), steps()
    page.keyboard.down("ArrowUp")
    page.wait_for_timeout(4000)
    page.keyboard.up("ArrowUp")
    page.keyboard.down("ArrowDown")
    page.wait_for_timeout(4000)
    page.keyboard.up("ArrowDown")
    page.wait_for_timeout(2000)
    rate = (steps() - first) / (time.monotonic() - begun)
    assert "Score" in page.locator(".facts").inner_text()
    assert min(marks(page)) > 20
    assert rate > 5, f"{rate:.1f} steps a second"
    page.keyboard.press("p")
    page.wait_for_timeout(300)
    stopped = steps()
    page.wait_for_timeout(500)
    assert steps() == stopped


def test_curves_move_within_two_seconds_of_a_new_line(open_page, studio: Studio) -> None:
    run = make_run(studio.root / "live", rows=5, measured=False)
    page = open_page("run/live")
    label = "document.querySelector('figure.chart canvas')?.getAttribute('aria-label')"
    until(page, f"{label}?.includes('training')")
    run.log({"step": 60, "loss": 0.0123, "rooms": 4})
    begun = time.monotonic()
    until(page, f"{label}?.includes('0.0123')")
    assert time.monotonic() - begun < 2
    page.get_by_role("heading", name="Rooms").wait_for()  # a column that no one has heard of draws itself


def test_how_keypoints_fare_stands_side_by_side(open_page) -> None:
    page = open_page("run/first")
    page.get_by_role("heading", name="Travel of each keypoint").wait_for()
    titles = page.locator("figure.chart h3").all_inner_texts()
    first = titles.index("Travel of each keypoint")
    assert titles[first + 1 : first + 3] == ["Change under each keypoint", "How much each keypoint follows"]


def test_agents_every_seed_and_their_play(open_page, studio: Studio, agents: str) -> None:
    page = open_page()
    page.get_by_role("link", name=agents, exact=True).click()
    label = "document.querySelector('figure.chart canvas')?.getAttribute('aria-label')"
    until(page, f"{label}?.includes('seed 0') && {label}?.includes('seed 1')")
    rows = page.locator("table.scores tbody tr").all_inner_texts()
    assert [row.split()[0] for row in rows] == ["seed", "seed", "mean", "random", "KeyQN", "human"]
    assert sum("Best" in row for row in rows) == 1
    until(page, "document.querySelector('video').readyState >= 2")
    assert page.evaluate("document.querySelector('video').videoWidth") == 480
    # While agents learn their curve grows.
    run = Run.create(studio.root / "learning", {"keyqn": {"games": ["pong"], "seeds": [0], "observation": "keypoints"}})
    page.goto(f"{studio.base}/#/run/learning")
    page.get_by_text("No clip yet").wait_for()
    run.log({"step": 100, "episodes": [[0, -21.0, 900]]})
    begun = time.monotonic()
    until(page, f"{label}?.includes('seed 0 −21')")
    assert time.monotonic() - begun < 2


def test_an_exploration_its_rooms_and_its_most_controllable_keypoint(open_page, options: str) -> None:
    page = open_page(f"run/{options}")
    page.get_by_role("heading", name="Return of the last episodes, by percentile").wait_for()
    titles = ["Return, mean and standard deviation", "How much actions matter to each keypoint", "Rooms entered"]
    for title in (*titles, "Most controllable keypoint on the avatar"):
        page.get_by_role("heading", name=title).wait_for()
    assert "is the most controllable on average" in page.locator(".most").inner_text()
    assert "Rooms\n1" in page.locator(".tiles:visible").inner_text()
    until(page, "document.querySelector('video').readyState >= 2")
    assert "triangle" in page.locator(".replay").inner_text()


def test_by_keyboard_alone(open_page) -> None:
    page = open_page()
    page.reload()
    page.get_by_role("link", name="first", exact=True).wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "first":
            break
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"  # one sees where one is
    page.keyboard.press("Enter")
    page.wait_for_selector("figure.chart canvas")
    assert "#/run/first" in page.url


def test_the_player_hears_keys_at_once(open_page) -> None:
    page = open_page("watch?model=shipped%3Apong", reduced_motion="reduce")
    page.wait_for_selector(".player")
    frame = "document.querySelector('.player').dataset.frame"
    for key, wanted in (("ArrowRight", 1), ("Shift+ArrowRight", 11), ("ArrowLeft", 10), ("End", 239), ("Home", 0)):
        page.keyboard.press(key)
        until(page, f"{frame} === '{wanted}'")
    page.keyboard.press(" ")
    until(page, f"{frame} > 3")
    page.keyboard.press(" ")
    page.get_by_role("button", name="Play", exact=True).wait_for()
    page.keyboard.press("0")
    assert page.locator(".chip").first.get_attribute("aria-pressed") == "false"


PLACES = {
    "runs": "runs",
    "curves": "run/first",
    "watch": "run/first/watch",
    "tracking": "run/first/tracking",
    "shipped": "watch",
    "compare": "compare?run=first&run=nested%2Fsecond",
    "agents": "run/agents",
    "options": "run/options",
    "clips": "clips",
    "play": "play",
}
READY = {"watch": ".player", "shipped": ".player", "play": ".playing", "clips": ".zone", "runs": "table.runs"}
READY |= {"agents": "table.scores", "options": ".most b", "clip": ".player"}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_screenshots(
    open_page, studio: Studio, agents: str, options: str, followed: str, tmp_path: Path, width: int, theme: str
) -> None:
    folder = Path(os.environ.get("TRANSPORTER_SHOTS", tmp_path))
    page = open_page("runs", width=width, theme=theme, reduced_motion="reduce")
    for name, place in (PLACES | {"clip": f"clip/{followed}"}).items():
        page.goto(f"{studio.base}/#/{place}")
        page.wait_for_selector(READY.get(name, "figure.chart"))
        page.wait_for_timeout(250)
        no_sideways(page)
        page.screenshot(path=folder / f"{name}-{width}-{theme}.png", full_page=True)
        assert (folder / f"{name}-{width}-{theme}.png").stat().st_size > 10_000
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(18, 18, 23)") == (theme == "dark"), json.dumps(background)
