"""``pinets predict``: the answers are those of the network, for files prepared as in evaluation."""

from __future__ import annotations

import json

import numpy
import pytest
import torch

from pinets import CCP, resolve
from pinets.cli import main
from pinets.data.formats.images import encode_png
from pinets.export import export, read_metadata
from pinets.prediction import predict

pytest.importorskip("PIL")


@pytest.fixture
def digit(tiny_run, tmp_path):
    """A test image of the run as a PNG file, and the network's probabilities for it."""
    run, data = tiny_run
    inputs = resolve(run, data_dir=data).data
    image = inputs.splits.test.images[3]
    path = tmp_path / "digits" / "three.png"
    path.parent.mkdir()
    path.write_bytes(encode_png(image))
    with torch.no_grad():
        scores = resolve(run).network(inputs.evaluation(image[None])).double().softmax(1)[0]
    return path, scores


def test_an_image_is_prepared_and_classified_as_in_evaluation(tiny_run, digit):
    path, scores = digit
    (found,) = predict(tiny_run[0], [path])
    torch.testing.assert_close(torch.tensor(found.scores, dtype=torch.float64), scores)
    assert found.best()[0][0] == found.classes[int(scores.argmax())]


def test_folders_tables_and_json(tiny_run, digit, tmp_path, capsys):
    run, path = tiny_run[0], digit[0]
    assert main(["predict", str(run), str(path.parent), "--top", "2"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["input", "class", "probability"]
    assert line.split()[0] == str(path)
    assert main(["predict", str(run), str(path), "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["scores"][row["class"]] == max(row["scores"].values())
    assert sum(row["scores"].values()) == pytest.approx(1)


@pytest.mark.slow
def test_exported_files_answer_as_the_run_does(tiny_run, digit, tmp_path):
    pytest.importorskip("onnxscript")
    run, path = tiny_run[0], digit[0]
    expected = predict(run, [path])[0].scores
    for target, name in (("onnx", "m.onnx"), ("safetensors", "m.safetensors"), ("torch_export", "m.pt2")):
        assert main(["export", str(run), "--to", target, "--out", str(tmp_path / name)]) == 0
        assert predict(tmp_path / name, [path], trust=True)[0].scores == pytest.approx(expected, abs=1e-5)


def test_a_table_goes_through_a_model_row_by_row(tmp_path, capsys):
    model = "CCP(3, 2, rank=2, order=2)"
    rows = torch.randn(70, 3, generator=torch.Generator().manual_seed(1))  # more than one batch
    table = tmp_path / "rows.csv"
    table.write_text("a,b,c\n" + "\n".join(",".join(map(str, row)) for row in rows.tolist()) + "\n")
    numpy.save(tmp_path / "rows.npy", rows.numpy())
    with torch.no_grad():
        expected = resolve(model).network(rows)
    for path in (table, tmp_path / "rows.npy"):
        found = torch.tensor([one.scores for one in predict(model, [path])])
        torch.testing.assert_close(found, expected)
    assert main(["predict", model, str(table)]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith(f"{table}, row 2: ")


@pytest.mark.parametrize(
    "content, message",
    [
        ("1,2\n3,4\n", "a row has 2 numbers, and the network takes 3"),
        ("1,2,3\n1,x,3\n", "line 2: expected 3 numbers, got '1,x,3'"),
        ("1,2,3\n1,nan,3\n", "line 2: expected 3 numbers"),
        ("1,2,\n4,5,6\n", "line 1: expected 3 numbers, got '1,2,'"),  # no line of names: it has numbers
        ("1,2,3x\n4,5,6\n", "line 1: expected 3 numbers, got '1,2,3x'"),
        ("a,b,c\n", "holds no rows of numbers"),
        ("nan,nan,nan\n1,2,3\n", "line 1: expected 3 numbers, got 'nan,nan,nan'"),  # a row, not names of columns
        (",,\n1,2,3\n", "line 1: expected 3 numbers, got ',,'"),
        ("1,2," + "3" * 200_000, "t.csv: must be comma-separated values"),
        ("1,2,\xff\n", "t.csv: must be text in UTF-8"),
    ],
)
def test_a_table_that_does_not_fit_is_named(tmp_path, capsys, content, message):
    (tmp_path / "t.csv").write_bytes(content.encode("latin-1"))
    assert main(["predict", "CCP(3, 2, rank=2, order=2)", str(tmp_path / "t.csv")]) == 1
    assert message in " ".join(capsys.readouterr().err.split())


def test_files_that_cannot_be_read_are_named(tiny_run, tmp_path, capsys):
    run = str(tiny_run[0])
    (tmp_path / "no.png").write_bytes(b"no image")
    (tmp_path / "text.txt").write_text("text")
    for name, message in (("no.png", "cannot be decoded"), ("text.txt", "known endings are"), ("gone.png", "no file")):
        assert main(["predict", run, str(tmp_path / name)]) == 1
        error = capsys.readouterr().err
        assert name in error
        assert message in error
    assert main(["predict", "CCP(3, 2, rank=2, order=2)", str(tmp_path / "no.png")]) == 1
    assert "it is not known how images are prepared" in capsys.readouterr().err
    assert main(["predict", "nonsense(", "x.png"]) == 2


@pytest.mark.parametrize("suffix", [".onnx", ".pt2"])
def test_exported_files_that_are_missing_or_damaged_are_named(suffix, tmp_path, capfd):
    (tmp_path / "rows.csv").write_text("1,2,3\n")
    file = tmp_path / f"m{suffix}"
    for content, message in ((None, "there is no file"), (b"junk", "is not a complete"), (b"", "m")):
        if content is not None:
            file.write_bytes(content)
        assert main(["predict", str(file), str(tmp_path / "rows.csv"), "--trust"]) == 1
        (line,) = capfd.readouterr().err.splitlines()
        assert line.startswith("pinets predict: ")
        assert str(file) in line
        assert message in line


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
def test_an_onnx_file_gets_numbers_of_its_type(dtype, tmp_path):
    pytest.importorskip("onnxscript")
    network, row = CCP(3, 2, rank=2, order=2, dtype=dtype), torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype)
    export(network, row, tmp_path / "m.onnx", to="onnx")
    (tmp_path / "rows.csv").write_text("1,2,3\n")
    (found,) = predict(tmp_path / "m.onnx", [tmp_path / "rows.csv"])
    assert found.scores == pytest.approx(network(row)[0].tolist(), rel=1e-2)


def test_a_list_beside_images_is_no_table_of_inputs(tiny_run, digit, tmp_path, capsys):
    (digit[0].parent / "labels.csv").write_text("file,label\nthree.png,3\n")
    assert main(["predict", str(tiny_run[0]), str(digit[0].parent)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "rows.csv").write_text("1,2,3\n")
    assert len(predict("CCP(3, 2, rank=2, order=2)", [tmp_path / "tables"])) == 1


def test_in_a_folder_what_is_hidden_or_no_file_is_left_out(tiny_run, digit, capsys):
    folder = digit[0].parent
    (folder / "._three.png").write_bytes(b"\0\5\26\7")  # macOS
    (folder / "empty.png").mkdir()
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    assert main(["predict", str(tiny_run[0]), str(folder)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_a_file_that_can_execute_code_must_be_trusted(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("1,2,3\n")
    assert main(["export", "CCP(3, 2, rank=2, order=2)", "--to", "torch_export", "--out", str(tmp_path / "m.pt2")]) == 0
    capsys.readouterr()
    words = ["predict", str(tmp_path / "m.pt2"), str(tmp_path / "rows.csv")]
    assert main(words) == 2
    assert "may execute what a .pt2 file says" in capsys.readouterr().err
    assert main([*words, "--trust"]) == 0
    expected = predict("CCP(3, 2, rank=2, order=2)", [tmp_path / "rows.csv"])[0].scores
    assert capsys.readouterr().out == f"{tmp_path / 'rows.csv'}, row 1: {', '.join(f'{x:.6g}' for x in expected)}\n"


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_an_estimator_is_read_from_its_file_and_no_other_class_is(tmp_path, capsys, classes):
    skops = pytest.importorskip("skops.io")
    from pinets.estimators import PolynomialNetClassifier, PolynomialNetRegressor

    rows = numpy.random.default_rng(0).uniform(size=(60, 3))
    target = rows[:, 0] * rows[:, 1] if classes == 0 else numpy.array(["a", "b", "c"])[numpy.arange(60) % classes]
    fitted = (PolynomialNetRegressor() if classes == 0 else PolynomialNetClassifier()).fit(rows, target)
    skops.dump(fitted, tmp_path / "fitted.skops")
    numpy.save(tmp_path / "rows.npy", 3 * rows)  # beyond what it saw, where it is not its polynomial
    answers = numpy.array([one.scores for one in predict(tmp_path / "fitted.skops", [tmp_path / "rows.npy"])])
    seen = (3 * rows).astype("float32")
    expected = fitted.predict(seen)[:, None] if classes == 0 else fitted.predict_proba(seen)
    numpy.testing.assert_allclose(answers, expected, rtol=1e-6, atol=1e-9)
    found = resolve(tmp_path / "fitted.skops")
    assert found.input_shape == (3,)
    assert found.classes == (("a", "b", "c") if classes == 3 else None)
    few = torch.tensor(rows[:5])
    assert torch.equal(found.network(few), fitted.to_polynomial()(few))
    out = tmp_path / "m.safetensors"
    assert main(["export", str(tmp_path / "fitted.skops"), "--to", "safetensors", "--out", str(out)]) == 0
    outputs = {0: "y", 2: "log-odds of b", 3: "score of a, score of b, score of c"}
    assert read_metadata(out).recipe["output"] == outputs[classes]
    from sklearn.preprocessing import StandardScaler

    skops.dump(StandardScaler(), tmp_path / "other.skops")
    assert main(["show", str(tmp_path / "other.skops")]) == 1
    assert "holds no estimator of pinets but a StandardScaler" in capsys.readouterr().err
    assert main(["show", str(tmp_path / "gone.skops")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_an_estimator_reads_a_table_by_the_names_of_its_columns(tmp_path, capsys):
    """Text, missing values, columns in another order, and one it does not know."""
    skops, pandas = pytest.importorskip("skops.io"), pytest.importorskip("pandas")
    from pinets.estimators import PolynomialNetClassifier

    draw = numpy.random.default_rng(0)
    table = pandas.DataFrame({"age": draw.uniform(20, 60, 80), "city": draw.choice(["Paris", "Rome"], 80)})
    table.loc[::9, "age"] = None
    table.loc[::7, "city"] = None
    bought = numpy.where(table["age"].fillna(0) > 40, "yes", "no")
    fitted = PolynomialNetClassifier(order=1).fit(table, bought)
    skops.dump(fitted, tmp_path / "fitted.skops")
    table.assign(note="x")[["note", "city", "age"]].to_csv(tmp_path / "rows.csv", index=False)
    answers = predict(tmp_path / "fitted.skops", [tmp_path / "rows.csv"])
    numpy.testing.assert_allclose([one.scores for one in answers], fitted.predict_proba(table), rtol=1e-9, atol=1e-12)
    table.rename(columns={"city": "ctiy"}).to_csv(tmp_path / "wrong.csv", index=False)
    assert main(["predict", str(tmp_path / "fitted.skops"), str(tmp_path / "wrong.csv")]) == 1
    assert "has no column 'city'; did you mean 'ctiy'?" in capsys.readouterr().err
    assert main(["expand", str(tmp_path / "fitted.skops")]) == 0
    head, *rows, reference = capsys.readouterr().out.splitlines()
    assert head.startswith("log-odds of yes = ")
    assert {name for row in rows[1:] for name in fitted.encoded_names() if name in row} == set(fitted.encoded_names())
    assert reference == f"city: compared with {table['city'].value_counts().idxmax()}"
    out = tmp_path / "m.safetensors"
    assert main(["export", str(tmp_path / "fitted.skops"), "--to", "safetensors", "--out", str(out)]) == 0
    known = read_metadata(out)
    rarer = table["city"].value_counts().idxmin()
    assert known.preprocessing["names"] == ["age", "age is missing", f"city={rarer}", "city=missing"]
    assert known.recipe == {"estimator": "PolynomialNetClassifier(order=1)", "output": "log-odds of yes"}
    assert main(["export", str(tmp_path / "fitted.skops"), "--to", "skops"]) == 2
    assert "skops.io.dump" in " ".join(capsys.readouterr().err.split())


def test_texts_of_digits_stay_texts_and_a_table_without_rows_is_named(tmp_path, capsys):
    skops, pandas = pytest.importorskip("skops.io"), pytest.importorskip("pandas")
    from pinets.estimators import PolynomialNetRegressor

    table = pandas.DataFrame({"postcode": ["0150", "75001", "0150", "00100"] * 10, "size": numpy.linspace(1, 9, 40)})
    price = table["size"] + table["postcode"].map({"0150": 0.0, "75001": 10.0, "00100": 20.0})
    fitted = PolynomialNetRegressor(order=1).fit(table, price)
    skops.dump(fitted, tmp_path / "fitted.skops")
    table.to_csv(tmp_path / "rows.csv", index=False)
    answers = predict(tmp_path / "fitted.skops", [tmp_path / "rows.csv"])
    numpy.testing.assert_allclose([one.scores[0] for one in answers], price, atol=1e-6)
    (tmp_path / "empty.csv").write_text("postcode,size\n")
    assert main(["predict", str(tmp_path / "fitted.skops"), str(tmp_path / "empty.csv")]) == 1
    assert "empty.csv: holds no rows" in capsys.readouterr().err


def test_numbers_keep_their_digits(tmp_path):
    """A time in seconds since 1970 needs more than the seven digits of single precision."""
    skops = pytest.importorskip("skops.io")
    from pinets import spec
    from pinets.estimators import PolynomialNetRegressor

    seconds = 1.7e9 + numpy.arange(40.0)[:, None]
    fitted = PolynomialNetRegressor(order=1).fit(seconds, seconds[:, 0] - 1.7e9)
    skops.dump(fitted, tmp_path / "fitted.skops")
    numpy.savetxt(tmp_path / "rows.csv", seconds, fmt="%.1f")
    numpy.save(tmp_path / "rows.npy", seconds)
    for name in ("rows.csv", "rows.npy"):
        answers = predict(tmp_path / "fitted.skops", [tmp_path / name])
        numpy.testing.assert_allclose([one.scores[0] for one in answers], numpy.arange(40.0), atol=1e-3)
    expression = "CCP(1, 1, rank=2, order=2)"
    network = spec.build(expression).double()
    spec.save(tmp_path / "double.safetensors", network, expression)
    found = predict(tmp_path / "double.safetensors", [tmp_path / "rows.npy"])
    with torch.no_grad():
        assert [one.scores for one in found] == [tuple(row) for row in network(torch.from_numpy(seconds)).tolist()]


def test_an_array_is_known_by_its_ending_in_capitals_too(tmp_path):
    rows = numpy.random.default_rng(0).normal(size=(3, 4))
    for name in ("rows.npy", "ROWS.NPY"):
        with (tmp_path / name).open("wb") as file:
            numpy.save(file, rows)
    small, capital = (predict("CCP(4, 2, rank=3, order=2)", [tmp_path / name]) for name in ("rows.npy", "ROWS.NPY"))
    assert [one.scores for one in small] == [one.scores for one in capital]


@pytest.mark.parametrize("network", ["a run", "CCP(4, 2, rank=3, order=2)"], ids=["classes", "numbers"])
def test_an_input_without_finite_outputs_is_named(tiny_run, tmp_path, capsys, network):
    network = str(tiny_run[0]) if network == "a run" else network
    rows = numpy.zeros((2, *(resolve(network).input_shape or (4,))))
    rows[1] = numpy.nan
    numpy.save(tmp_path / "rows.npy", rows)
    assert main(["predict", network, str(tmp_path / "rows.npy")]) == 1
    assert "rows.npy, row 2: the network's outputs are not finite" in capsys.readouterr().err
