"""Several seeds in one command: a run for each, one chosen, all of it resumed."""

import json
from pathlib import Path

import transporter
from transporter.runs import Run

QUICK = ["--preset", "tiny", "--steps", "6", "--batch", "4", "--sigma-steps", "2", "--validate-every", "3",
         "--log-every", "3", "--device", "cpu", "--seeds", "2"]  # fmt: skip


def test_seeds_are_trained_chosen_and_loaded(forked, data, tmp_path: Path) -> None:
    command = ["train", "sprites", "--data", data, "--out", "both", *QUICK]
    done = forked(*command, cwd=tmp_path)
    assert done.code == 0, done.err
    folder = tmp_path / "both"
    chosen = json.loads((folder / "chosen.json").read_text())
    kept = {}
    for seed in (0, 1):
        rows = [row for row in Run.open(folder / f"seed{seed}").metrics() if "validation_loss" in row]
        assert rows[-1]["step"] == 6
        kept[f"seed{seed}"] = min(rows, key=lambda row: row["validation_loss"])
    assert {c["name"]: c["error"] for c in chosen["candidates"]} == {
        name: row["reconstruction_error"] for name, row in kept.items()
    }
    assert {row["alive"] for row in kept.values()} == {0}  # so short a training finds nothing: the error decides
    assert chosen["run"] == min(kept, key=lambda name: kept[name]["reconstruction_error"])
    assert chosen["by"] == "reconstruction error"
    assert chosen["candidates"][0]["name"] == chosen["run"]
    assert chosen["run"] in done.err + done.out
    assert transporter.load(folder).card["step"] == chosen["candidates"][0]["step"]
    assert forked(*command, cwd=tmp_path).code == 0  # everything is there already: nothing is trained again


def test_a_choice_that_leads_elsewhere_is_refused(forked, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    for text in ('{"run": "../../etc"}', 100_000 * "["):
        (tmp_path / "runs" / "chosen.json").write_text(text)
        refused = forked("evaluate", "sprites", "--model", "runs", cwd=tmp_path)
        assert refused.code == 2
        assert "does not say which run is meant" in refused.err
