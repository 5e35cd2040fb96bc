"""A report shows figures only of the weights that it shows."""

import json
from pathlib import Path

import numpy as np

from transporter.cli.report import read_evaluation
from transporter.runs import Run
from transporter.tracking.match import Episode
from transporter.tracking.metrics import tracking_curve
from transporter.tracking.results import Evaluation


def test_figures_of_other_weights_are_left_out_and_named(tmp_path: Path) -> None:
    still = Episode(np.zeros((4, 1, 2), np.float32), np.zeros((4, 1, 2), np.float32), np.ones((4, 1), bool))
    measured = Evaluation("sprites", 0, 4, 1, tracking_curve([still], 0.2, [1]), 1, (), ())
    run = Run.create(tmp_path / "run", {})
    assert read_evaluation(run, step=5) is None
    (run.path / "evaluation.json").write_text(json.dumps({**measured.to_json(), "step": 5}))
    found = read_evaluation(run, step=5)
    assert found is not None
    assert found.figures == measured.figures
    assert run.warnings == []
    assert read_evaluation(run, step=6) is None
    assert "of step 5, not of step 6" in run.warnings[0]
