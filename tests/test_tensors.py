"""Tensors in a file: what goes in comes out, and what was changed on the way does not."""

import errno
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch

from transporter.errors import InputError
from transporter.tensors import read_tensors, save_file, write_tensors

HEAD = {"format": "1", "card": '{"a": "ü"}'}
TENSORS = {
    "half": torch.arange(6).half().view(2, 3),
    "scalar": torch.tensor(3),
    "none": torch.zeros(0, 4),
    "turned": torch.arange(6.0).view(2, 3).T,
}


def test_what_goes_in_comes_out_and_any_reader_can_open_it(tmp_path: Path) -> None:
    write_tensors(tmp_path / "w.safetensors", TENSORS, HEAD)
    head, tensors = read_tensors(tmp_path / "w.safetensors")
    assert head == HEAD
    assert all(torch.equal(tensors[name], tensor) for name, tensor in TENSORS.items())
    assert safetensors.torch.load_file(tmp_path / "w.safetensors").keys() == TENSORS.keys()


@pytest.mark.parametrize("what", ["a number", "a name", "a word", "a shape"])
def test_a_change_is_noticed(tmp_path: Path, what: str) -> None:
    path = tmp_path / "w.safetensors"
    write_tensors(path, TENSORS, HEAD)
    with safetensors.safe_open(path, "pt") as file:
        head = file.metadata()
    tensors = safetensors.torch.load_file(path)
    match what:
        case "a number":
            tensors["scalar"] += 1
        case "a name":
            tensors["other"] = tensors.pop("half")
        case "a word":
            head["card"] = "{}"
        case "a shape":
            tensors["half"] = tensors["half"].view(3, 2)
    safetensors.torch.save_file(tensors, path, metadata=head)
    with pytest.raises(InputError, match="has changed since it was written"):
        read_tensors(path)


def test_a_file_of_before_has_no_checksum_and_is_read(tmp_path: Path) -> None:
    safetensors.torch.save_file({"w": torch.ones(2)}, tmp_path / "w.safetensors", metadata=HEAD)
    assert read_tensors(tmp_path / "w.safetensors").head == HEAD


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_tensors(tmp_path / "nowhere")
    (tmp_path / "text").write_text("text")
    with pytest.raises(InputError, match="is not a file of weights"):
        read_tensors(tmp_path / "text")


def test_a_full_disk_is_named_with_the_file(tmp_path: Path, monkeypatch) -> None:
    def full(*_, **__) -> None:  # word for word what safetensors says
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(OSError, match="No space left") as error:
        save_file({"a": torch.zeros(3)}, tmp_path / "w.safetensors")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "w.safetensors"))


def test_a_folder_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="is a folder: name a file"):
        write_tensors(tmp_path / "model", TENSORS, HEAD)
    assert list((tmp_path / "model").iterdir()) == []
