"""A detector as an ONNX file, for runtimes without torch."""

from pathlib import Path

import torch

from transporter.errors import InputError
from transporter.files import replacing
from transporter.models.detector import Detector


def export_onnx(detector: Detector, path: Path) -> None:
    """Input `frames` (n, size, size, 3) float32 in 0..255; outputs `points` (n, k, 2) and `features` (n, k, d)."""
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise InputError("ONNX export needs more packages: pip install 'transporter[export]'") from None
    size = detector.config.size
    net = detector.net.cpu()
    try:
        program = torch.onnx.export(
            net,
            (torch.zeros(2, size, size, 3),),
            input_names=["frames"],
            output_names=["points", "features"],
            dynamic_shapes={"frames": {0: torch.export.Dim("n")}},
            dynamo=True,
            verbose=False,
        )
    finally:
        net.to(detector.device)
    assert program is not None
    with replacing(path) as temporary:
        onnx.save(program.model_proto, temporary)
