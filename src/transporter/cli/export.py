"""transporter export: a detector as one file."""

from pathlib import Path

import tyro

from transporter.errors import InputError


def export(model: tyro.conf.Positional[str], out: tyro.conf.Positional[Path], /, full: bool = False) -> None:
    """Write a detector as a .safetensors file (which transporter.load reads) or as .onnx (for other runtimes).

    Args:
        model: A shipped model, a run folder or a .safetensors file.
        out: The file to write; its ending decides the format.
        full: Keep .safetensors weights in full precision instead of half.
    """
    from transporter.cli.console import say
    from transporter.models.zoo import load

    detector = load(model, "cpu")
    match out.suffix:
        case ".safetensors":
            detector.save(out, half=not full)
        case ".onnx":
            from transporter.models.export import export_onnx

            export_onnx(detector, out)
        case _:
            raise InputError(f"{out}: the ending must be .safetensors or .onnx")
    say(f"written: [bold]{out}[/] ({out.stat().st_size / 1e6:.2f} MB)")
