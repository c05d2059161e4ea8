from __future__ import annotations

import base64
import json

import pytest

from pinets.tasks.faces import FaceResult, load_results
from pinets.tasks.faces.report import write_face_report

RESULT = FaceResult(
    "ours", "Pairs", "LFW", {"accuracy": 0.9}, curves={"roc": [(0.001, 0.5), (0.1, 1.0)]}, remarks={"accuracy": "few"}
)


def test_results_come_back_as_they_were(tmp_path):
    RESULT.save(tmp_path)
    (tmp_path / "other.json").write_text('{"of": "something else"}')
    assert load_results(tmp_path) == [RESULT]


@pytest.mark.parametrize("change", [{"figures": {"accuracy": "high"}}, {"curves": {"roc": [[1]]}}, {"more": 1}])
def test_a_damaged_result_is_left_out_by_name(tmp_path, change):
    RESULT.save(tmp_path)
    content = json.loads((tmp_path / RESULT.file_name).read_text())
    (tmp_path / "damaged.json").write_text(json.dumps({**content, **change}))
    with pytest.warns(UserWarning, match=r"a result is left out: .*damaged\.json"):
        assert load_results(tmp_path) == [RESULT]


def test_a_report_holds_pictures_of_its_own_folder_alone(tmp_path):
    folder = tmp_path / "results"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "own.png").write_bytes(b"own picture")
    (folder / "link.png").symlink_to(tmp_path / "secret")
    names = {"own": "own.png", "above": "../secret", "absolute": str(tmp_path / "secret"), "link": "link.png"}
    FaceResult("ours", "Pairs", "LFW", {"accuracy": 0.9}, pictures=names).save(folder)
    page = write_face_report(folder).read_text()
    assert base64.b64encode(b"own picture").decode() in page
    assert base64.b64encode(b"secret").decode() not in page
