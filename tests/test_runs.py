import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transporter.checkpoints import Checkpoint
from transporter.errors import InputError
from transporter.files import replacing, write_text
from transporter.runs import GoneError, Json, Run


def checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"model.w": torch.full((3,), float(step))}, {"best": 0.5})


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "run", {"config": {"seed": 1}})


def test_the_newest_checkpoint_comes_back_and_old_ones_go(run: Run) -> None:
    for step in (1, 2, 3):
        run.save(checkpoint(step))
    found = run.latest()
    assert found is not None
    assert (found.step, found.state) == (3, {"best": 0.5})
    assert found.part("model.")["w"].tolist() == [3, 3, 3]
    assert sorted(p.name for p in (run.path / "checkpoints").iterdir()) == ["step-0000000002", "step-0000000003"]


@pytest.mark.parametrize("name", ["tensors.safetensors", "state.json", "manifest.json"])
def test_a_damaged_checkpoint_is_passed_over_and_named(run: Run, name: str) -> None:
    run.save(checkpoint(1))
    run.save(checkpoint(2))
    file = run.path / "checkpoints" / "step-0000000002" / name
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    found = run.latest()
    assert found is not None
    assert found.step == 1
    assert "step-0000000002 is damaged" in run.warnings[0]


def test_a_damaged_checkpoint_does_not_count_among_the_two_that_stay(run: Run) -> None:
    run.save(checkpoint(1))
    run.save(checkpoint(2))
    (run.path / "checkpoints" / "step-0000000002" / "state.json").write_text("{}")
    assert run.latest().step == 1  # type: ignore[union-attr]
    run.save(checkpoint(3))
    assert sorted(p.name for p in (run.path / "checkpoints").iterdir()) == ["step-0000000001", "step-0000000003"]


def test_a_line_of_metrics_that_is_damaged_is_left_out_and_named(run: Run) -> None:
    for step in (1, 2, 3):
        run.log({"step": step})
    path = run.path / "metrics.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"step": 2', b'"step" \xff 2'))
    assert [row["step"] for row in run.metrics()] == [1, 3]
    assert run.warnings == ["line 2 of metrics.jsonl is damaged: left out"]


def test_what_was_killed_at_its_very_start_begins_again(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").touch()
    (tmp_path / "run" / ".run.7.part.json").write_text("{")
    run = Run.create(tmp_path / "run", {"seed": 1})
    with run.lock():
        assert sorted(p.name for p in run.path.iterdir()) == ["lock", "run.json"]


def test_settings_that_were_changed_by_hand_are_noticed(run: Run) -> None:
    file = run.path / "run.json"
    file.write_text(file.read_text().replace('"seed": 1', '"seed": 3'))
    with pytest.raises(InputError, match="has changed since it was written"):
        Run.open(run.path)


def test_where_every_checkpoint_is_damaged_it_says_so(run: Run) -> None:
    run.save(checkpoint(1))
    (run.path / "checkpoints" / "step-0000000001" / "state.json").write_text("{}")
    with pytest.raises(InputError, match="no whole checkpoint left"):
        run.best()


def test_colleagues_can_read_a_checkpoint(run: Run) -> None:
    run.save(checkpoint(1))
    file = run.path / "checkpoints" / "step-0000000001" / "tensors.safetensors"
    assert file.stat().st_mode & 0o777 == 0o644


def test_a_checkpoint_that_was_never_finished_is_not_seen(run: Run) -> None:
    run.save(checkpoint(1))
    (run.path / "checkpoints" / ".step-0000000002.7.part").mkdir()
    found = run.latest()
    assert found is not None
    assert found.step == 1


def test_best_is_kept_apart_and_falls_back_to_the_newest(run: Run) -> None:
    with pytest.raises(InputError, match="no checkpoint yet"):
        run.best()
    run.save(checkpoint(5))
    assert run.best().step == 5
    run.save(checkpoint(3), best=True)
    assert run.best().step == 3


def test_the_best_is_the_one_chosen_last_even_if_its_step_is_lower(run: Run) -> None:
    run.save(checkpoint(9), best=True)
    run.save(checkpoint(5), best=True)
    assert run.best().step == 5


def test_rewinding_forgets_a_best_from_later(run: Run) -> None:
    run.save(checkpoint(4))
    run.save(checkpoint(7), best=True)
    run.rewind(4)
    assert run.best().step == 4


def test_metrics_leave_out_a_line_cut_short_and_rewind(run: Run) -> None:
    for step in (1, 2, 3):
        run.log({"step": step, "loss": step / 2})
    with (run.path / "metrics.jsonl").open("a") as handle:
        handle.write('{"step": 4, "lo')
    assert [row["step"] for row in run.metrics()] == [1, 2, 3]
    run.rewind(2)
    run.log({"step": 3, "loss": 0})
    assert [row["loss"] for row in run.metrics()] == [0.5, 1.0, 0]


def test_the_same_settings_reopen_and_others_are_refused(run: Run) -> None:
    assert Run.create(run.path, {"config": {"seed": 1}}).path == run.path
    with pytest.raises(InputError, match=r"config\.seed 1 → 2"):
        Run.create(run.path, {"config": {"seed": 2}})
    others = {name: 0 for name in "abcd"}
    with pytest.raises(InputError, match=r"config\.seed 1 → 2, .* and 1 more \(its → yours\)"):
        Run.create(run.path, {"config": {"seed": 2, **others}})


def test_what_would_be_refused_is_known_without_making_anything(run: Run, tmp_path: Path) -> None:
    found = Run.check(run.path, {"config": {"seed": 1}})
    assert found is not None
    assert found.path == run.path
    with pytest.raises(InputError, match="other settings"):
        Run.check(run.path, {"config": {"seed": 2}})
    assert Run.check(tmp_path / "none" / "there", {}) is None
    assert not (tmp_path / "none").exists()


def test_a_run_of_another_kind_is_called_that_also_where_its_settings_say_nothing_to_us(run: Run) -> None:
    def today(settings: Json) -> Json:
        raise InputError("there is no 'model'")

    with pytest.raises(InputError, match="holds a run of another kind: name another folder"):
        Run.create(run.path, {"model": {}}, today)
    with pytest.raises(InputError, match="holds a run that does not fit: there is no 'model'"):
        Run.create(run.path, {"config": {}}, today)


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    with pytest.raises(InputError, match="holds no run"):
        Run.create(tmp_path, {})
    with pytest.raises(InputError, match="not a run folder"):
        Run.open(tmp_path)
    with pytest.raises(InputError, match="is a file"):
        Run.create(tmp_path / "note.txt", {})


def test_a_run_from_the_future_says_so(run: Run) -> None:
    (run.path / "run.json").write_text(json.dumps({"format": 99, "settings": {}}))
    with pytest.raises(InputError, match="newer version"):
        Run.open(run.path)


def test_a_second_process_is_refused(run: Run) -> None:
    code = (
        "import sys, pathlib\nfrom transporter.runs import Run\n"
        "with Run.open(pathlib.Path(sys.argv[1])).lock(): print('in')"
    )
    with run.lock():
        second = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True)
    assert "in use by another process" in second.stderr
    third = subprocess.run([sys.executable, "-c", code, run.path], capture_output=True, text=True)
    assert third.stdout == "in\n"


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("ne")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        write_half()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file.txt"]


def test_what_a_link_leads_to_is_replaced_and_what_is_no_file_is_not(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "file.txt").write_text("old")
    link, pipe = tmp_path / "link.txt", tmp_path / "pipe"
    link.symlink_to(tmp_path / "far" / "file.txt")
    write_text(link, "new")
    assert link.is_symlink()
    assert (tmp_path / "far" / "file.txt").read_text() == "new"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="pipe is not a file that could be written anew"):
        write_text(pipe, "new")


def test_a_run_folder_that_is_taken_away_is_said_to_be_gone(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", {})
    run.save(Checkpoint(1, {"a": torch.zeros(1)}, {}))
    (run.path / "checkpoints" / "step-of-someone").mkdir()
    assert run.saved_step() == 1
    (tmp_path / "run").rename(tmp_path / "elsewhere")
    for write in (lambda: run.log({"step": 2}), lambda: run.save(Checkpoint(2, {"a": torch.zeros(1)}, {}))):
        with pytest.raises(GoneError, match=r"run was taken away: nothing was saved since"):
            write()
    assert not (tmp_path / "run").exists()
    assert run.saved_step() == 0
