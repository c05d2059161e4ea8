"""A path may be given as text, wherever one is taken."""

from __future__ import annotations

import inspect
import re
from functools import partial

import pytest

from pinets import data
from pinets.tasks import faces as face_recognition
from pinets.tasks.faces import data as faces
from pinets.tasks.faces import embeddings
from pinets.tasks.faces.data import open_identities, open_records, pack, read_lfw_view1
from pinets.tasks.faces.report import write_face_report
from pinets.tasks.faces.results import FaceResult, load_results
from pinets.tasks.meshes.readers import read_shapes

CROP = data.CentreCrop(4, 4)
READERS = {
    "open_embeddings": embeddings.open_embeddings,
    "open_identities": partial(open_identities, crop=CROP),
    "open_pack": faces.open_pack,
    "open_pairs": lambda path: faces.open_pairs(path, path, size=4),
    "open_records": partial(open_records, crop=CROP),
    "open_rfw": partial(faces.open_rfw, size=4),
    "open_shards": lambda path: data.open_shards([path], CROP),
    "open_yaleb": partial(faces.open_yaleb, size=4),
    "pack": lambda path: pack(path, f"{path}-shards"),
    "parse_pairs": faces.parse_pairs,
    "read_ijb": faces.read_ijb,
    "read_image_list": faces.read_image_list,
    "read_lfw_view1": read_lfw_view1,
    "read_noises": faces.read_noises,
    "read_shapes": read_shapes,
    "write_face_report": write_face_report,
    "write_features": lambda path: embeddings.write_features(path, ["a.jpg"], ".bin", f"{path}.npy"),
}


@pytest.mark.parametrize("name", READERS)
def test_text_is_read_as_the_path_it_names(name, tmp_path):
    told = []
    for path in (tmp_path / "nowhere", str(tmp_path / "nowhere")):
        with pytest.raises(FileNotFoundError) as error:
            READERS[name](path)
        told.append(str(error.value))
    assert told[0] == told[1]


def test_results_and_their_page_are_written_to_text(tmp_path):
    result = FaceResult("a", "Pairs", "LFW", {"accuracy": 0.9})
    result.save(str(tmp_path))
    assert load_results(str(tmp_path)) == [result]
    assert write_face_report(str(tmp_path), str(tmp_path / "page.html")) == tmp_path / "page.html"
    assert "accuracy" in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("module", [data, faces, face_recognition])
def test_no_public_function_takes_paths_alone(module):
    functions = {name: getattr(module, name) for name in module.__all__ if inspect.isfunction(getattr(module, name))}
    wrong = [
        f"{name}: {parameter}"
        for name, function in functions.items()
        for parameter in inspect.signature(function).parameters.values()
        if re.search(r"\bPath\b", str(parameter.annotation))
    ]
    assert not wrong
