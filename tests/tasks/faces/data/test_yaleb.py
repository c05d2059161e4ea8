"""The lights of Extended Yale B."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from pinets.data import MissingDataError
from pinets.tasks.faces.data import light_subset, open_yaleb


def test_yaleb_is_divided_by_the_angle_of_the_light(tmp_path):
    folder = tmp_path / "CroppedYale" / "yaleB01"
    folder.mkdir(parents=True)
    for light in ("A+000E+00", "A-020E-10", "A+035E-20", "A-070E+00", "A+110E+65"):
        (folder / f"yaleB01_P00{light}.pgm").write_bytes(b"P5 2 2 255\n" + bytes(4))
    (folder / "yaleB01_P00_Ambient.pgm").write_bytes(b"P5 2 2 255\n" + bytes(4))
    found = open_yaleb(tmp_path, size=2)
    by_name = {Path(path).stem[-9:]: subset for path, subset in zip(found.faces.paths, found.subsets, strict=True)}
    expected = {"A+000E+00": 1, "A-020E-10": 2, "A+035E-20": 3, "A-070E+00": 4, "A+110E+65": 5}
    assert {name: int(subset) for name, subset in by_name.items()} == expected
    with pytest.raises(MissingDataError, match="Extended Yale B is not in"):
        open_yaleb(tmp_path / "CroppedYale" / "yaleB01", size=2)


def test_limits_belong_to_the_inner_subset():
    assert [light_subset(angle, 0) for angle in (12, 25, 52, 77, 78)] == [1, 2, 3, 4, 5]


DATA = Path(os.environ.get("PINETS_DATA") or "/nowhere")


@pytest.mark.skipif(not (DATA / "yaleb").is_dir(), reason="PINETS_DATA does not hold yaleb")
def test_the_real_lights_are_divided_as_in_the_literature():
    found = open_yaleb(DATA, size=8)
    assert torch.bincount(found.subsets[found.faces.labels == 0])[1:].tolist() == [7, 12, 12, 14, 19]
    assert len(found.faces) == 2414
