"""Hazard: an image that is named by tag stays so, a digest is written twice, or a registry's failure empties a file."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from deploy.docker import pin_images

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64


def test_every_image_of_the_files_is_pinned_and_pinned_again() -> None:
    for name in pin_images.FILES:
        text = (pin_images.ROOT / name).read_text()
        asked: list[str] = []

        def digest_of(image: str, asked: list[str] = asked) -> str:
            asked.append(image)
            return ONE

        once = pin_images.pinned(text, digest_of)
        named = re.findall(r"(?m)^[^#\n]*_IMAGE(?:=|:-)([^\s}]+)", once)
        assert named
        assert all(image.endswith(f"@{ONE}") for image in named), named
        assert all("@" not in image for image in asked)
        assert pin_images.pinned(once, lambda _: TWO) == once.replace(ONE, TWO)


def test_nothing_changes_if_no_registry_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Dockerfile").write_text("ARG PYTHON_IMAGE=python:3.11\n")
    monkeypatch.setattr(pin_images, "ROOT", tmp_path)

    def refused(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "no such host")

    monkeypatch.setattr(subprocess, "run", refused)
    with pytest.raises(SystemExit, match="no such host"):
        pin_images.main(["Dockerfile"])
    assert (tmp_path / "Dockerfile").read_text() == "ARG PYTHON_IMAGE=python:3.11\n"
