from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch

from pinets import resolve
from pinets import tasks as recipes
from pinets.cli import main
from pinets.report import group_runs
from pinets.tasks.meshes import write_mesh_report
from pinets.tasks.meshes.geometry import HierarchyPlan, build_hierarchy, read_mesh, write_mesh
from pinets.tasks.meshes.shape_model import load_shape_model

trimesh = pytest.importorskip("trimesh")
pytest.importorskip("torch_geometric")

TINY = [
    "data.reduced=false",
    "data.vertices=162",
    "hierarchy.factors=4,4",
    "hierarchy.hops=1,1,1",
    "hierarchy.dilation=1,1,1",
    "hierarchy.lengths=6,6,6",
    "latent=3",
    "epochs=2",
]
WIDTHS = ["model.encoder=3,4,4", "model.decoder=4,4,3"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Balls stretched along three directions, and bent: 60 to train on and 10 to test."""
    root = tmp_path_factory.mktemp("data")
    ball = trimesh.creation.icosphere(subdivisions=2)
    generator = torch.Generator().manual_seed(0)
    stretch = 1 + 0.3 * torch.randn(70, 1, 3, generator=generator)
    shapes = torch.tensor(ball.vertices).float() * stretch
    shapes[..., 0] += 0.2 * torch.randn(70, 1, generator=generator) * shapes[..., 1] ** 2
    for name in ("faces", "bodies"):
        folder = root / "meshes" / name
        folder.mkdir(parents=True)
        np.save(folder / "train.npy", shapes[:60].numpy())
        np.save(folder / "test.npy", shapes[60:].numpy())
        write_mesh(folder / "template.obj", torch.tensor(ball.vertices), torch.tensor(ball.faces))
    return root


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("PINETS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def tiny(name, *changes):
    widths = [] if name.endswith("pca") else WIDTHS
    return recipes.get_recipe(name, "small", [*TINY, *widths, *changes])


def test_the_papers_sizes():
    with torch.device("meta"):
        networks = {name: recipes.get_recipe(name).networks()["model"] for name in ("coma_spiral", "coma_spiral_ncp_2")}
    count = {name: sum(p.numel() for p in network.parameters()) for name, network in networks.items()}
    assert count["coma_spiral"] == 48547
    assert count["coma_spiral_ncp_2"] == 74755 + 2 * 147  # and a scale and a shift for each feature's norm


def test_the_published_values():
    made = recipes.get_recipe("coma_spiral_ncp_skip_3_linear")
    assert (made.epochs, made.batch, made.latent) == (300, 16, 16)
    assert (made.optimizer.lr, made.optimizer.weight_decay, made.schedule.gamma) == (1e-3, 5e-5, 0.99)
    assert made.hierarchy.references == (3567, 4051, 4597)
    assert (made.model.layer, made.model.order, made.model.activation) == ("ncp_skip", 3, "none")
    body = recipes.get_recipe("dfaust_spiral")
    assert body.model.encoder == (3, 16, 32, 64, 128)
    assert body.model.decoder == (128, 64, 32, 32, 16, 3)
    assert body.hierarchy.hops == body.hierarchy.dilation == (2, 2, 1, 1, 1)


def test_recipes_of_a_set_differ_in_their_model_only():
    for scale in ("full", "medium", "small"):
        for data in ("coma", "motions") if scale == "medium" else ("coma", "dfaust", "motions"):
            made = [recipes.get_recipe(name, scale) for name in recipes.list_recipes() if name.startswith(f"{data}_")]
            rest = [{k: v for k, v in recipes.to_json(one).items() if k not in ("name", "model")} for one in made]
            assert len(made) == 25
            assert all(one == rest[0] for one in rest)


@pytest.mark.parametrize("ending", ["spiral_linear", "spiral_ncp_2", "spiral_simple_3_linear", "gat", "pca"])
def test_a_run_is_trained_evaluated_and_resumed(data, tmp_path, ending):
    recipe = tiny(f"coma_{ending}")
    result = recipes.train(recipe, tmp_path, data_dir=data)
    assert set(result["test"]) == {"error_mm", "deviation_mm", "median_mm", "non_finite"}
    assert result["test"]["non_finite"] == 0
    folder = recipes.run_folder(recipe, tmp_path)
    assert recipes.evaluate(folder.path, data_dir=data) == result["test"]
    assert recipes.train(recipe, tmp_path, data_dir=data, resume=True) == result


def test_a_run_knows_its_shapes_from_others_as_many(data, tmp_path):
    recipe, mine = tiny("coma_spiral_ncp_2"), tmp_path / "data"
    shutil.copytree(data, mine)
    recipes.train(recipe, tmp_path, data_dir=mine)
    run = recipes.run_folder(recipe, tmp_path)
    shapes = mine / "meshes" / "faces" / "train.npy"
    np.save(shapes, 2 * np.load(shapes))
    with pytest.warns(UserWarning, match="trained on other samples"):
        recipes.evaluate(run.path)
    run.result_file.unlink()  # as if it had been interrupted
    with pytest.raises(ValueError, match="was started with other data: other shapes"):
        recipes.train(recipe, tmp_path, data_dir=mine, resume=True)
    notes = json.loads(run.data_file.read_text())
    notes.pop("content")  # as in older runs, which go on
    run.data_file.write_text(json.dumps(notes))
    recipes.train(recipe, tmp_path, data_dir=mine, resume=True)


def test_principal_components_are_the_best_that_is_linear(data, tmp_path):
    """The mean squared error of any linear autoencoder is no lower; the test checks it on the training shapes."""
    folder = recipes.run_folder(tiny("coma_pca"), tmp_path)
    recipes.train(tiny("coma_pca"), tmp_path, data_dir=data)
    pca = load_shape_model(folder.path, data_dir=data)
    shapes = pca.splits.train.shapes
    lost = (pca.reconstruct(shapes) - shapes).square().sum().item()
    values = torch.linalg.svdvals((shapes - shapes.mean(0)).flatten(1).double())
    assert lost == pytest.approx(values[3:].square().sum().item(), rel=1e-3)


def test_training_lowers_the_error(data, tmp_path):
    few, many = (
        recipes.train(tiny("coma_spiral_ncp_2_linear", f"epochs={epochs}"), tmp_path / str(epochs), data_dir=data)
        for epochs in (1, 40)
    )
    assert many["test"]["error_mm"] < 0.9 * few["test"]["error_mm"]


def test_a_set_of_another_size_is_refused(data, tmp_path):
    with pytest.raises(ValueError, match=r"data\.vertices is 100, but the shapes of mesh_faces have 162"):
        recipes.train(tiny("coma_spiral", "data.vertices=100"), tmp_path, data_dir=data)
    with pytest.raises(recipes.RecipeError, match=r"hierarchy\.lengths must be given"):
        tiny("coma_spiral", "hierarchy.lengths=none")


def test_the_unit_and_the_split_of_shapes_can_be_chosen(data):
    made = tiny("coma_spiral", "data.millimetres=2.5")
    assert made.data.load(data).test.millimetres == 2.5
    assert tiny("coma_spiral").data.load(data).test.millimetres == 10.0
    extrapolation = recipes.get_recipe("coma_spiral", "full", ["data.split=extrapolation:bareteeth"])
    assert recipes.recipe_from_json(recipes.to_json(extrapolation)) == extrapolation
    with pytest.raises(TypeError, match="mesh_faces has no option 'split'"):
        tiny("coma_spiral", "data.split=interpolation").data.load(data)


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PINETS_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
        for name in ("coma_pca", "coma_spiral_linear", "coma_spiral_ncp_2_linear"):
            recipes.train(tiny(name), out, data_dir=data)
    return out


def test_shapes_are_encoded_decoded_and_calculated_with(data, runs):
    model = load_shape_model(runs / "coma_spiral_ncp_2_linear-small" / "seed-0", data_dir=data)
    a, b, c = model.splits.test.shapes[:3]
    way = model.interpolate(a, b, 5)
    ends = model.reconstruct(torch.stack([a, b]))
    torch.testing.assert_close(way[[0, -1]], ends, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.arithmetic(a, a, c), model.reconstruct(c[None])[0], rtol=1e-4, atol=1e-5)
    expected = model.splits.train.millimetres * (ends - torch.stack([a, b])).norm(dim=-1)
    torch.testing.assert_close(model.errors(torch.stack([a, b])), expected)
    with pytest.raises(ValueError, match="at least its 2 ends, got 1"):
        model.interpolate(a, b, 1)


def test_the_command_line_writes_shapes(data, runs, tmp_path, capsys):
    run, out = str(runs / "coma_spiral_ncp_2_linear-small" / "seed-0"), tmp_path / "shapes"
    common = ["--data", str(data), "--out", str(out)]
    assert main(["sample", "reconstruct", run, "--index", "0,2", *common]) == 0
    assert "mean error" in capsys.readouterr().out
    assert len(read_mesh(out / "2-made.ply").vertices) == 162
    assert main(["sample", "interpolate", run, "--index", "0,1", "--steps", "3", "--format", "obj", *common]) == 0
    assert sorted(path.name for path in out.glob("step-*")) == ["step-0.obj", "step-1.obj", "step-2.obj"]
    assert main(["sample", "arithmetic", run, "--index", "0,1,2", "--format", "glb", *common]) == 0
    assert (out / "a-b+c.glb").is_file()
    assert main(["sample", "arithmetic", run, "--index", "0,1", *common]) == 2
    assert main(["sample", "reconstruct", run, "--index", "10", *common]) == 2
    assert "there is no shape 10; test has 0 to 9" in capsys.readouterr().err
    assert main(["sample", run]) == 1
    assert "with an autoencoder of shapes: pinets sample reconstruct" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["obj", "ply", "gltf", "glb"])
def test_exported_shapes_do_not_disturb_each_other(data, runs, tmp_path, kind):
    """All of one folder are read back; glTF keeps its numbers in a file of their own if it is let."""
    run = str(runs / "coma_spiral_ncp_2_linear-small" / "seed-0")
    words = ["--index", "0,1,2", "--format", kind, "--data", str(data), "--out", str(tmp_path)]
    assert main(["sample", "arithmetic", run, *words]) == 0
    model = load_shape_model(run, data_dir=data)
    shapes = model.splits.test.shapes[:3]
    for name, expected in (*zip("abc", shapes, strict=True), ("a-b+c", model.arithmetic(*shapes))):
        found = read_mesh(tmp_path / f"{name}.{kind}")
        torch.testing.assert_close(found.vertices.float(), expected, rtol=1e-5, atol=1e-6)


def test_a_run_is_exported(data, runs, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    run = runs / "coma_spiral_ncp_2_linear-small" / "seed-0"
    file = tmp_path / "shapes.onnx"
    assert main(["export", str(run), "--to", "onnx", "--out", str(file), "--data", str(data)]) == 0
    trained = resolve(run, data_dir=data)
    shapes = torch.randn(2, *trained.input_shape)
    (out,) = onnxruntime.InferenceSession(file).run(None, {"input": shapes.numpy()})
    torch.testing.assert_close(torch.from_numpy(out), trained.network(shapes).detach(), rtol=1e-3, atol=1e-4)


def test_the_report_has_figures_and_needs_no_network(data, runs, tmp_path, capsys):
    out, png = tmp_path / "report.html", tmp_path / "png"
    assert main(["mesh", "report", str(runs), "--data", str(data), "--out", str(out), "--png", str(png)]) == 0
    printed = capsys.readouterr().out
    assert "coma_pca-small" in printed
    page = out.read_text(encoding="utf-8")
    assert "test shape 0, and what each order makes of it (order 1 is coma_spiral_linear-small; order 2 is" in page
    assert "Plotly" in page
    assert "<script src=" not in page
    assert {path.name for path in png.iterdir()} == {"error-against-order.png", "shape-errors.png"}


def test_shapes_are_not_drawn_where_only_some_networks_have_weights(data, runs, tmp_path):
    """Else a picture of other networks would replace the one that was drawn where all weights were."""
    here = [run for found in group_runs([runs]).values() for run in found]
    for run in here:
        place = tmp_path / run.path.parent.name / "seed-0"
        if "spiral_linear" in str(place):
            run.write_record(place)
        else:
            place.parent.mkdir()
            place.symlink_to(run.path)
    write_mesh_report([tmp_path], tmp_path / "report.html", data_dir=data, png=tmp_path / "png")
    assert [path.name for path in (tmp_path / "png").iterdir()] == ["error-against-order.png"]


def test_prepare_shows_every_level(data, tmp_path, capsys):
    template = str(data / "meshes" / "faces" / "template.obj")
    levels = tmp_path / "levels"
    assert main(["mesh", "prepare", template, "--factors", "4,4", "--levels", str(levels)]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[1] for line in printed.splitlines()[2:5]] == ["162", "41", "11"]
    assert len(read_mesh(levels / "level-2.ply").vertices) == 11
    assert main(["mesh", "prepare", template, "--factors", "4", "--hops", "2,1", "--dilation", "2,1"]) == 0
    told = capsys.readouterr().out.partition("hierarchy.lengths=")[2].splitlines()[0]
    plan = HierarchyPlan((4,), (2, 1), (2, 1), tuple(map(int, told.split(","))))
    by_rule = build_hierarchy(read_mesh(template), HierarchyPlan((4,), (2, 1), (2, 1)))
    assert build_hierarchy(read_mesh(template), plan).digest() == by_rule.digest()
    assert main(["mesh", "prepare", template, "--factors", "4,4", "--hops", "1"]) == 2
    assert "hops must give a number from 1 on for each of 3 levels" in capsys.readouterr().err
    assert main(["mesh", "prepare", str(tmp_path / "none.obj")]) == 1
    assert main(["mesh", "prepare", template, "--factors", "4", "--references", "162"]) == 1
    assert "there is no vertex 162: vertices are numbered from 0 to 161" in capsys.readouterr().err
    assert main(["mesh", "prepare", template, "--vertices", "5000"]) == 2
    assert "--vertices: the template has 162, fewer than 5,000" in capsys.readouterr().err


def test_a_scale_that_a_recipe_does_not_have_is_refused():
    assert recipes.get_recipe("motions_spiral", "medium").epochs == 40
    with pytest.raises(recipes.RecipeError, match="dfaust_spiral has no medium scale"):
        recipes.get_recipe("dfaust_spiral", "medium")


def test_the_report_of_a_run_shows_errors_by_shape_and_by_vertex(data, tmp_path, capsys):
    words = [word for change in TINY for word in ("--set", change)]
    assert main(["train", "coma_pca", "--scale", "small", "--data", str(data), "--out", str(tmp_path), *words]) == 0
    capsys.readouterr()
    (run,) = tmp_path.glob("*/seed-0")
    page = (run / "report.html").read_text()
    model = load_shape_model(run, data_dir=data)
    shapes = model.splits.test.shapes
    distance = (model.reconstruct(shapes) - shapes).square().sum(-1).sqrt() * model.splits.test.millimetres
    middle = distance.mean(1).sort().values[(len(shapes) - 1) // 2]
    assert f"Half of 10 test shapes have a mean error below {middle:.3g} mm" in page
    assert "the autoencoder is a polynomial of degree 1 in the coordinates of the vertices" in page
    assert "histogram of the errors" in page
    assert "mean error of each vertex" in page


@pytest.mark.parametrize(
    "change, message",
    [
        ("data.limit=-3", "data.limit: limit must be at least 2, got -3"),
        ("data.limit=1", "data.limit: limit must be at least 2, got 1"),
        ("data.vertices=0", "data.vertices: vertices must be at least 1, got 0"),
        ("data.millimetres=-1", "data.millimetres: millimetres must be above 0, got -1"),
        ("data.sequence=0", "data.sequence: sequence must be at least 1, got 0"),
    ],
)
def test_values_that_no_shapes_have_are_refused_before_they_are_read(change, message):
    with pytest.raises(ValueError, match=message):
        recipes.get_recipe("motions_spiral", "small", [change])


def test_more_vertices_than_the_shapes_have_are_refused_by_name(data):
    recipe = recipes.get_recipe("coma_spiral", "small", ["data.vertices=99999"])
    with pytest.raises(ValueError, match=r"data\.vertices is 99999, but the shapes of mesh_faces have \d+"):
        recipe.data.load(data)
