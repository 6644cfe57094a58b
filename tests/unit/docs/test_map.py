"""Hazard: a map of the packages that lacks one, so that a newcomer does not find what it decides."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
MAP = (ROOT / "docs" / "development.md").read_text()
#: Folders whose packages the map lists.
FLOORS = ("dm_master", "dm_worker", "dm_worker/syncer", "pkg")
PACKAGES = sorted(
    str(init.parent.relative_to(ROOT)) for floor in FLOORS for init in (ROOT / floor).glob("*/__init__.py")
)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_has_the_package(package: str) -> None:
    assert f"`{package}`" in MAP, f"docs/development.md, 'Map of the packages', lacks {package}"
