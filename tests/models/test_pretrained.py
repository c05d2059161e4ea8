from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import pinets
from pinets import certify, create_model, resolve, spec
from pinets.cli import main
from pinets.engine.model import Model
from pinets.models import Card, list_weights, load_weights, read_card
from pinets.models import pretrained as pretrained_module
from pinets.models.hub import HubNetwork
from pinets.models.pretrained import save_weights

SHIPPED = Path(pinets.__file__).parent / "weights"


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder of weights with one tiny network in it."""
    monkeypatch.setenv("PINETS_WEIGHTS", str(tmp_path))
    network = create_model("ccp4_mnist", rank=2, num_classes=3)
    card = Card("tiny", "a tiny one", "ccp4_mnist", (1, 28, 28), 1, True, "4", options={"rank": 2, "num_classes": 3})
    save_weights(tmp_path / "tiny.safetensors", network, card)
    return tmp_path, network, card


def test_what_ships_is_small_and_each_has_its_card():
    assert list_weights()
    assert sum(file.stat().st_size for file in SHIPPED.iterdir()) < 10_000_000
    for file in SHIPPED.glob("*.safetensors"):
        card = read_card(file)
        assert card.name == file.stem
        assert file.with_suffix(".md").read_text(encoding="utf-8") == card.markdown()
        assert card.command.startswith("pinets train ")


@pytest.mark.parametrize("name", list_weights())
def test_a_card_tells_the_truth_about_its_network(name):
    network, card = load_weights(name)
    assert not network.training
    assert sum(parameter.numel() for parameter in network.parameters()) == card.parameters
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    certificate = certify(network, torch.randn(1, *card.input_shape))
    assert (certificate.polynomial, str(certificate.degree or "")) == (card.polynomial, card.degree)
    if card.classes is not None:
        assert network(torch.zeros(1, *card.input_shape)).shape == (1, len(card.classes))


def test_weights_by_name_model_path_and_file(own):
    folder, network, _ = own
    x = torch.randn(2, 1, 28, 28)
    expected = network.eval()(x)
    for made in (
        create_model("tiny", pretrained=True),
        create_model("ccp4_mnist", pretrained="tiny"),
        create_model("ccp4_mnist", pretrained=folder / "tiny.safetensors"),
        resolve("tiny").network,
        spec.load(folder / "tiny.safetensors")[0],
    ):
        torch.testing.assert_close(made(x), expected)


def test_matrices_are_stored_in_the_type_of_the_card_and_vectors_in_float32(own):
    folder, network, card = own
    save_weights(folder / "half.safetensors", network, replace(card, name="half", precision="float16"))
    with safe_open(folder / "half.safetensors", framework="pt") as file:
        types = {name: file.get_tensor(name).dtype for name in file.keys()}  # noqa: SIM118 - not a dict
    assert types["fc.weight"] == torch.float16
    assert types["fc.bias"] == torch.float32
    loaded = create_model("half", pretrained=True)
    assert torch.equal(loaded.fc.weight, network.fc.weight.half().float())


def test_resolved_weights_know_their_inputs():
    found = resolve("mnist_ccp4")
    assert found.input_shape == (1, 28, 28)
    assert found.classes == tuple("0123456789")
    assert found.recipe.name == "mnist_ccp4"
    pixels = torch.randint(0, 256, (2, 1, 28, 28), dtype=torch.uint8)
    known = found.preprocessing
    by_hand = (pixels.double() / 255 - known["mean"][0]) / known["std"][0]
    torch.testing.assert_close(found.card.prepare(pixels).double(), by_hand, rtol=1e-5, atol=1e-5)
    with pytest.raises(TypeError, match=r"from bytes, 0 to 255, got torch\.float32"):
        found.card.prepare(pixels / 255)


@pytest.mark.parametrize(
    "name, pretrained, arguments, message",
    [
        ("resnet18_cifar", "tiny", {}, "the weights tiny are of ccp4_mnist, not of resnet18_cifar"),
        ("tiny", True, {"num_classes": 5}, r"do not fit ccp4_mnist\(rank=2, num_classes=5\): fc.weight should have"),
        ("ccp4_mnist", "tyni", {}, "no weights named 'tyni'; known are"),
        ("resnet18_cifar", True, {}, "there are no weights of 'resnet18_cifar'"),
        ("tiny", "nowhere.safetensors", {}, "there is no file nowhere.safetensors"),
        ("tiny", "https://example.org/a.safetensors", {}, "must end in #sha256= and 64 digits"),
    ],
)
def test_wrong_weights_are_one_clear_line(own, name, pretrained, arguments, message):
    with pytest.raises((ValueError, OSError), match=message) as raised:
        create_model(name, pretrained=pretrained, **arguments)
    assert "\n" not in str(raised.value)


def test_several_weights_of_a_model_must_be_named(own):
    folder, network, card = own
    save_weights(folder / "other.safetensors", network, replace(card, name="other"))
    with pytest.raises(ValueError, match=r"there are several weights of ccp4_mnist: name one"):
        create_model("ccp4_mnist", pretrained=True)


def test_an_address_that_cannot_be_reached_leaves_nothing(own, tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained_module, "user_cache", lambda name: tmp_path / "cache" / name)
    with pytest.raises(OSError, match=r"could not be downloaded"):
        create_model("tiny", pretrained=f"http://127.0.0.1:9/net.safetensors#sha256={'0' * 64}")
    assert not list((tmp_path / "cache").rglob("*.safetensors"))


@pytest.mark.parametrize(
    "card, message",
    [
        ("{", "cannot be read"),
        ('{"name": 3}', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        (json.dumps({"name": "x", "summary": "", "model": "eval", "input_shape": [1], "parameters": 1,
                     "polynomial": True}), "no model named 'eval'"),
        (json.dumps({"name": "x", "summary": "", "model": "ccp4_mnist", "input_shape": [1], "parameters": 1,
                     "polynomial": True, "options": {"rank": 10**9}}), "cannot be used"),
    ],
)  # fmt: skip
def test_damaged_cards_are_refused(tmp_path, card, message):
    save_file({"a": torch.zeros(1)}, tmp_path / "bad.safetensors", {"card": card, "model": "Linear(1, 1)"})
    with pytest.raises(ValueError, match=message):
        load_weights(tmp_path / "bad.safetensors")


def test_a_strangers_expression_or_recipe_cannot_ask_for_weights(own):
    with pytest.raises(ValueError, match="has no argument 'pretrained'"):
        spec.build("ccp4_mnist(pretrained='hub:nobody/nothing')")
    with pytest.raises(TypeError, match="has no argument 'pretrained'"):
        Model("ccp4_mnist", {"pretrained": "hub:nobody/nothing"}).build(classes=10)


def test_a_truncated_file_is_refused(own):
    folder, _, _ = own
    content = (folder / "tiny.safetensors").read_bytes()
    (folder / "tiny.safetensors").write_bytes(content[:-100])
    with pytest.raises(ValueError, match="not a complete safetensors file"):
        load_weights("tiny")


def test_the_hub_against_a_local_folder(own, tmp_path):
    _, network, card = own
    HubNetwork.of("tiny").save_pretrained(tmp_path / "hub")
    assert (tmp_path / "hub" / "README.md").read_text(encoding="utf-8") == card.markdown()
    x = torch.randn(2, 1, 28, 28)
    back = HubNetwork.from_pretrained(tmp_path / "hub").eval()
    assert (back.card, back(x).tolist()) == (card, network.eval()(x).tolist())
    made = create_model("tiny", pretrained=f"hub:{tmp_path / 'hub'}")
    torch.testing.assert_close(made(x), network(x))


def test_pushing_uploads_the_folder(own, monkeypatch):
    from huggingface_hub import HfApi

    uploaded = {}

    def upload(self, *, folder_path, repo_id, **_):
        uploaded[repo_id] = sorted(file.name for file in Path(folder_path).iterdir())

    monkeypatch.setattr(HfApi, "create_repo", lambda self, repo_id, **_: type("Url", (), {"repo_id": repo_id})())
    monkeypatch.setattr(HfApi, "upload_folder", upload)
    HubNetwork.of("tiny").push_to_hub("somebody/tiny")
    assert uploaded == {"somebody/tiny": ["README.md", "config.json", "model.safetensors"]}


def test_a_hub_that_is_not_there_is_one_clear_line(own, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"no network could be loaded from the hub as 'nobody/nothing'") as raised:
        create_model("tiny", pretrained="hub:nobody/nothing")
    assert "\n" not in str(raised.value)
    with pytest.raises(ValueError, match=r"has no config\.json"):
        create_model("tiny", pretrained=f"hub:{tmp_path}")


def test_the_list_shows_each_with_its_summary(own, capsys):
    assert main(["list", "weights"]) == 0
    assert any(line.split(maxsplit=1) == ["tiny", "a tiny one"] for line in capsys.readouterr().out.splitlines())


def test_weights_on_the_hub_with_a_tensor_missing_are_refused(own, tmp_path):
    HubNetwork.of("tiny").save_pretrained(tmp_path / "hub")
    file = tmp_path / "hub" / "model.safetensors"
    tensors = load_file(file)
    gone = next(name for name in tensors if name.endswith("bias"))
    save_file({name: tensor for name, tensor in tensors.items() if name != gone}, file)
    with pytest.raises(ValueError, match=f"Missing key.*{gone}"):
        create_model("tiny", pretrained=f"hub:{tmp_path / 'hub'}")
    with pytest.raises(RuntimeError, match="Missing key"):
        HubNetwork.from_pretrained(tmp_path / "hub", strict=False)


def test_a_stray_file_among_the_weights_spoils_nothing(own, capsys):
    folder, _, _ = own
    spec.save(folder / "stray.safetensors", create_model("ccp4_mnist", rank=2), "ccp4_mnist(rank=2)")
    with pytest.raises(
        ValueError, match="there are several weights of ccp4_mnist"
    ):  # but not "stray", which has no card
        create_model("ccp4_mnist", pretrained=True)
    assert main(["list", "weights"]) == 0
    assert "has no card" in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("stray"))
    assert main(["show", "tiny"]) == 0
