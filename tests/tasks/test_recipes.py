from __future__ import annotations

import pytest
import torch

from pinets import tasks as recipes
from pinets.engine.optimization import MultiStep, Plateau, Warmup
from pinets.tasks import faces, generation, meshes
from pinets.tasks.classification.catalogue import certified, cifar, encrypted, imagenet, polynomial, speech, strict

CATALOGUES = (
    *(certified, cifar, encrypted, imagenet, polynomial, speech, strict),
    *(generation.catalogue, faces.catalogue, meshes.catalogue),
)

NAMES = recipes.list_recipes()
MAKERS = {name: maker for part in CATALOGUES for name, maker in vars(part).items() if name in NAMES}


def has_scale(name, scale):
    try:
        return bool(recipes.get_recipe(name, scale))
    except recipes.RecipeError:
        return False


MADE = [(name, scale) for name in NAMES for scale in ("full", "medium", "small") if has_scale(name, scale)]


def test_every_recipe_has_a_full_and_a_small_scale():
    assert {name for name, scale in MADE if scale == "full"} == {name for name, scale in MADE if scale == "small"}


@pytest.mark.parametrize("name, scale", MADE)
def test_every_recipe_can_be_made_kept_and_read(name, scale):
    made = recipes.get_recipe(name, scale)
    assert (made.name, made.scale) == (name, scale)
    assert recipes.recipe_from_json(recipes.to_json(made)) == made


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("name", MAKERS)
def test_a_function_of_the_catalogue_makes_the_recipe_of_its_name(name, scale):
    assert MAKERS[name](scale) == recipes.get_recipe(name, scale)


def test_full_scale_is_made_unless_told_otherwise():
    assert MAKERS["cifar10_prodpoly_resnet18"]().title == "cifar10_prodpoly_resnet18"


@pytest.mark.parametrize("name, scale", MADE)
def test_every_recipe_builds_its_network(name, scale):
    with torch.device("meta"):
        networks = recipes.get_recipe(name, scale).networks()
    assert sum(parameter.numel() for parameter in networks["model"].parameters()) > 0


@pytest.mark.parametrize(
    "name, millions",
    [  # as the paper prints them
        ("cifar10_resnet18", 11.2),
        ("cifar10_prodpoly_resnet18", 6.0),
        ("cifar10_resnet34", 21.3),
        ("cifar10_prodpoly_resnet34", 13.0),
        ("cifar100_resnet34", 21.3),
        ("cifar100_prodpoly_resnet34", 14.7),
        ("speech_resnet34", 21.3),
        ("speech_prodpoly_resnet34", 13.2),
    ],
)
def test_the_papers_sizes(name, millions):
    assert round(size(name, "full") / 1e6, 1) == millions


@pytest.mark.parametrize(
    "baseline, polynomial, ratio",
    [("cifar10_resnet18", "cifar10_prodpoly_resnet18", 0.54), ("speech_resnet34", "speech_prodpoly_resnet34", 0.62)],
)
def test_small_pairs_keep_the_papers_ratio_of_parameters(baseline, polynomial, ratio):
    assert size(polynomial, "small") / size(baseline, "small") == pytest.approx(ratio, abs=0.01)


def size(name, scale):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in recipes.get_recipe(name, scale).networks()["model"].parameters())


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_says_what_the_paper_and_we_found_and_how(name):
    notes = recipes.recipe_notes(name)
    for word in ("Paper:", "Ours:", "Command:"):
        assert word in notes


def test_the_papers_cifar_values():
    made = recipes.get_recipe("cifar10_resnet18")
    assert (made.epochs, made.batch, made.optimizer.lr) == (120, 128, 0.1)
    assert made.schedule == MultiStep((40, 60, 80, 100), gamma=0.1)


def test_the_papers_speech_values():
    made = recipes.get_recipe("speech_prodpoly_resnet34")
    assert (made.epochs, made.optimizer.lr, made.data.classes) == (70, 0.01, 35)
    assert isinstance(made.schedule, Plateau)
    assert made.schedule.epochs == 2


def test_the_papers_imagenet_values():
    made = recipes.get_recipe("imagenet_prodpoly_resnet50")
    assert (made.epochs, made.batch) == (90, 512)
    assert (made.optimizer.lr, made.optimizer.momentum, made.optimizer.weight_decay) == (0.2, 0.9, 1e-4)
    assert isinstance(made.schedule, Warmup)
    assert (made.schedule.epochs, made.schedule.then) == (5, MultiStep((30, 60, 80), gamma=0.1))


PAIRS = [
    ("cifar10_resnet18", "cifar10_prodpoly_resnet18"),
    ("cifar10_resnet34", "cifar10_prodpoly_resnet34"),
    ("cifar100_resnet34", "cifar100_prodpoly_resnet34"),
    ("speech_resnet34", "speech_prodpoly_resnet34"),
    ("imagenet_resnet50", "imagenet_prodpoly_resnet50"),
    *(("imagenet_resnet18", f"imagenet_pinet18{kind}") for kind in ("", "_1x1", "_relu", "_1x1_relu")),
    ("cifar10_polynomial", "cifar10_polynomial_relu"),
    ("fashion_polynomial", "fashion_polynomial_relu"),
    ("cifar10_strict", "cifar10_strict_relu"),
    ("cifar10_strict_tame", "cifar10_strict_tame_relu"),
    ("cifar10_strict_resnet", "cifar10_strict_resnet_relu"),
    ("fashion_strict", "fashion_strict_relu"),
]


@pytest.mark.parametrize("scale", ["full", "small"])
@pytest.mark.parametrize("baseline, polynomial", PAIRS)
def test_a_pair_differs_in_its_model_only(baseline, polynomial, scale):
    first, second = (recipes.to_json(recipes.get_recipe(name, scale)) for name in (baseline, polynomial))
    differing = {key for key in first if first[key] != second[key]}
    assert differing == {"name", "model"}
    assert first["model"]["options"] == second["model"]["options"]


def test_an_unknown_recipe_is_answered_with_the_nearest():
    with pytest.raises(recipes.RecipeError, match="no recipe 'cifar_resnet18'; did you mean 'cifar10_resnet18'"):
        recipes.get_recipe("cifar_resnet18")


def test_an_unknown_scale_is_refused():
    with pytest.raises(recipes.RecipeError, match="scale must be one of full, medium, small, got 'tiny'"):
        recipes.get_recipe("cifar10_resnet18", "tiny")


def test_options_of_the_model_are_typed_and_checked():
    made = recipes.get_recipe("cifar10_resnet18", "full", ["model.width=16"])
    assert made.model.options == {"width": 16}
    with pytest.raises(recipes.RecipeError, match=r"model\.widht"):
        recipes.get_recipe("cifar10_resnet18", "full", ["model.widht=16"])
    with pytest.raises(recipes.RecipeError, match=r"model\.wide\.r: .* has no argument 'wide\.r'"):
        recipes.get_recipe("cifar10_resnet18", "full", ["model.wide.r=16"])


def test_options_of_the_model_that_fit_each_other_alone_are_checked_together():
    both = ["model.widths=4,8", "model.depths=1,2"]
    for changes in (both, both[::-1]):
        assert recipes.get_recipe("cifar10_strict_resnet", "full", changes).model.options["depths"] == (1, 2)
    with pytest.raises(recipes.RecipeError, match=r"model\.depths: depths must have 4 numbers like widths"):
        recipes.get_recipe("cifar10_strict_resnet", "full", both[1:])
    with pytest.raises(recipes.RecipeError, match=r"model\.widths, model\.deths: .*no argument 'deths'"):
        recipes.get_recipe("cifar10_strict_resnet", "full", [both[0], "model.deths=1,2"])


@pytest.mark.parametrize(
    "change, message",
    [
        ("batch=130", None),
        ("accumulate=3", "a batch of 128 cannot be divided into 3 equal parts"),
        ("seed=-1", r"seed: seed must be at least 0 and at most 2\*\*63 - 1, got -1"),
        (f"seed={2**63}", rf"seed: seed must be at least 0 and at most 2\*\*63 - 1, got {2**63}"),
        ("epochs=0", "epochs must be at least 1"),
        ("clip=-1", "clip must be above 0, got -1.0"),
        ("clip=nan", "clip must be a number or none, got 'nan'"),
        ("clip=none", None),
        ("label_smoothing=5", "label_smoothing must be at least 0 and at most 1, got 5.0"),
        ("top_k=1,20", "top_k must be at least 1 and at most all 10 classes, got 20"),
        ("top_k=0", "top_k must be at least 1 and at most all 10 classes, got 0"),
        ("top_k=", "top_k must name at least one accuracy"),
        ("optimizer.lr=nan", r"optimizer\.lr must be a number, got 'nan'"),
        ("optimizer.lr=-1", r"optimizer\.lr: lr must be above 0, got -1"),
        ("optimizer.momentum=-1", r"optimizer\.momentum: momentum must be at least 0 and below 1, got -1"),
        ("optimizer.weight_decay=-1", r"optimizer\.weight_decay: weight_decay must be at least 0, got -1"),
        ("schedule.gamma=-2", r"schedule\.gamma: gamma must be above 0, got -2"),
        ("schedule.milestones=-4", r"schedule\.milestones: milestones must be at least 0, got -4"),
        ("data.validation=1.5", r"data\.validation: validation must be above 0 and below 1, got 1\.5"),
        ("data.limit=-5", r"data\.limit: limit must be at least 1 for each of the 10 classes, got -5"),
        ("data.crop=-1", r"data\.crop: crop must be at least 0, got -1"),
        ("data.turn=-1", r"data\.turn: turn must be at least 0, got -1"),
        ("data.grow=1", r"data\.grow: grow must be at least 0 and below 1, got 1"),
    ],
)
def test_values_out_of_range_are_refused(change, message):
    if message is None:
        recipes.get_recipe("cifar10_resnet18", "full", [change])
        return
    with pytest.raises(recipes.RecipeError, match=message):
        recipes.get_recipe("cifar10_resnet18", "full", [change])


def test_images_are_turned_and_scaled_where_a_recipe_says_so(cifar):
    plain = recipes.get_recipe("cifar10_resnet18").data.load(cifar)
    turned = recipes.get_recipe("cifar10_resnet18", "full", ["data.turn=10", "data.grow=0.1"]).data.load(cifar)
    assert "RandomCrop(padding=4), RandomFlip" in repr(plain.augment)
    assert "RandomSimilarity(degrees=10.0, scale=0.1, shift=4), RandomFlip" in repr(turned.augment)
    assert turned.preprocessing == plain.preprocessing


def test_every_data_class_describes_the_inputs(cifar, tmp_path):
    images = recipes.get_recipe("cifar10_resnet18").describe_inputs(cifar)
    assert (images.shape, images.classes, images.missing) == ((3, 32, 32), tuple("abcdefghij"), "")
    mean = recipes.get_recipe("cifar10_resnet18").data.load(cifar).splits.train.images[:, 1].double().mean() / 255
    assert images.preprocessing["mean"][1] == pytest.approx(float(mean))
    speech = recipes.get_recipe("speech_resnet34").describe_inputs(tmp_path)  # the clips are not there
    assert (speech.shape, speech.classes) == ((1, 32, 32), None)
    assert "speech_commands is not in" in speech.missing
    for name, shape in {
        "coma_spiral": (5023, 3),
        "lfw_iresnet": (3, 64, 64),
        "ms1m_arcface_resnet50": (3, 112, 112),
        "cifar10_sngan": None,
    }.items():
        assert recipes.get_recipe(name).describe_inputs(tmp_path).shape == shape


@pytest.mark.parametrize("content", [None, [], {}, {"kind": "Other"}, {"kind": [["Images"]]}])
def test_a_recipe_of_no_known_kind_is_refused(content):
    with pytest.raises(recipes.RecipeError, match="a recipe must be of kind"):
        recipes.recipe_from_json(content)
