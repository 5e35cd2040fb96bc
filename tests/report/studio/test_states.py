"""The studio in a real browser where something is missing, late, damaged or odd: it says so, and what to do next."""

import os
import shutil
from pathlib import Path

import pytest

from transporter.runs import Run

from .conftest import Studio, make_run, no_sideways, until, write_clip


def test_an_answer_that_comes_late_does_not_take_the_page_over(open_page, studio: Studio) -> None:
    page = open_page("play")
    page.wait_for_selector(".playing")
    held = []
    page.route("**/api/runs", lambda route: held.append(route))
    page.evaluate("location.hash = '#/runs'")
    while not held:
        page.wait_for_timeout(20)
    page.evaluate("location.hash = '#/clips'")
    page.wait_for_selector(".zone")
    held[0].continue_()
    page.wait_for_timeout(400)
    assert page.locator(".zone").is_visible()
    assert page.locator("table.runs").count() == 0


def test_states_that_say_what_to_do(open_page, studio: Studio) -> None:
    Run.create(studio.root / "bare", {"environment": "pong"})
    page = open_page("run/bare")
    page.get_by_text("No curves yet").wait_for()
    page.goto(f"{studio.base}/#/run/bare/tracking")
    page.get_by_text(f"transporter evaluate pong --model {studio.root}/bare").wait_for()
    page.goto(f"{studio.base}/#/elsewhere")
    page.get_by_text("This address leads nowhere").wait_for()
    page.get_by_label("Theme: auto", exact=False).click()
    assert page.evaluate("document.documentElement.dataset.theme") == "light"


@pytest.mark.parametrize("place", ["run/%E0%A4%A", "constructor", "%"])
def test_an_address_that_is_no_address_leads_nowhere(open_page, place: str) -> None:
    open_page(place).get_by_text("This address leads nowhere").wait_for()


@pytest.mark.parametrize("page_name", ["watch", "play", "clips"])
def test_a_model_that_is_not_there_is_not_replaced_by_another(open_page, page_name: str) -> None:
    page = open_page(f"{page_name}?model=run%3Anothere")
    page.get_by_text("There is no model named run:nothere").wait_for()
    assert page.locator("select").count() == 0
    page.get_by_role("link", name="Choose another").click()
    page.wait_for_selector("select")


def test_damaged_files_are_called_damaged(open_page, studio: Studio) -> None:
    run = make_run(studio.root / "hurt", rows=5, measured=False)
    (run.path / "evaluation.json").write_text('{"curve": ')
    page = open_page("run/hurt/tracking")
    page.get_by_text("evaluation.json is damaged").wait_for()
    (run.path / "run.json").write_text('{"config": ')
    page.goto(f"{studio.base}/#/run/hurt/watch")
    page.get_by_role("heading", name="This run is damaged").wait_for()
    shutil.rmtree(run.path)


def test_a_search_without_hits_says_so(open_page) -> None:
    page = open_page()
    page.get_by_label("Find a run").fill("zebra")
    page.get_by_text("No run is named or plays “zebra”").wait_for()
    assert not page.locator("table.runs").is_visible()
    page.get_by_label("Find a run").fill("first")
    page.locator("table.runs").wait_for()


def test_a_chart_with_one_point_shows_it(open_page, studio: Studio) -> None:
    run = Run.create(studio.root / "once", {"environment": "pong"})
    run.log({"step": 800, "loss": 0.0})  # nothing that a logarithm could show
    run.log({"step": 900, "loss": 0.5})
    page = open_page("run/once")
    page.wait_for_selector("figure.chart canvas")
    blue = """() => {
        const canvas = document.querySelector("figure.chart canvas");
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        let count = 0;
        for (let i = 0; i < data.length; i += 4) count += data[i + 3] > 200 && data[i + 2] > data[i] + 100;
        return count;
    }"""
    until(page, f"({blue})() > 20")
    shutil.rmtree(run.path)


def test_another_game_gets_its_own_model_or_a_warning(open_page) -> None:
    page = open_page("play?model=shipped%3Apong")
    page.wait_for_selector(".playing")
    model, game = page.get_by_label("Model"), page.get_by_label("Game", exact=True)
    warning = page.get_by_text("This model was trained on")
    assert not warning.is_visible()
    game.select_option("ms_pacman")
    until(page, "document.querySelector('select').value === 'shipped:ms_pacman'")
    game.select_option("sprites_vanish")  # for which there is none
    page.get_by_text("In sprites_vanish its keypoints may follow nothing").wait_for()
    assert model.input_value() == "shipped:ms_pacman"
    model.select_option("shipped:pong")
    warning.wait_for(state="hidden")
    assert game.input_value() == "pong"


def test_a_clip_that_waits_and_one_with_a_long_name(open_page, studio: Studio, tmp_path: Path) -> None:
    long = write_clip(tmp_path / "long.mp4", frames=5000).read_bytes()
    made = [studio.drop(long, name=name).json["id"] for name in ("first.mp4", "a" * 400 + ".mp4")]
    page = open_page("clips")
    card = page.locator(".clip.waiting")
    card.wait_for()
    assert card.evaluate("(card) => getComputedStyle(card).display") == "block"  # not the wheel of a page that loads
    assert card.locator(".badge i").evaluate("(dot) => getComputedStyle(dot).borderTopWidth") == "0px"
    no_sideways(page)
    page.screenshot(path=Path(os.environ.get("TRANSPORTER_SHOTS", tmp_path)) / "waiting.png", full_page=True)
    for clip in reversed(made):
        assert studio.ask("DELETE", "/api/clip", id=clip).status == 200
