"""``pinets convert``: the same function, in a file that says what it holds."""

from __future__ import annotations

import pytest
import torch

from pinets import create_model, spec
from pinets.cli.app import main

RESNET = "resnet18_cifar(width=8, depths=(1, 2))"


def test_a_registered_model_is_converted_into_a_file_that_loads(tmp_path, capsys):
    out = tmp_path / "pinet.safetensors"
    assert main(["convert", RESNET, "--tanh", "--local-convs", "1", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "3 converted, 0 kept" in printed
    assert "largest difference of outputs: 0\n" in printed
    model, metadata = spec.load(out)
    assert metadata["model"] == f"to_pinet({RESNET}, tanh=True, local_convs=1)"
    assert sum(name.endswith("alpha") for name, _ in model.named_parameters()) == 3


def test_weights_are_kept(tmp_path):
    model = create_model("resnet18_cifar", width=8, depths=(1, 2))
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    out = tmp_path / "pinet.safetensors"
    assert main(["convert", RESNET, "--weights", str(tmp_path / "weights.pth"), "--out", str(out)]) == 0
    x = torch.randn(2, 3, 16, 16)
    torch.testing.assert_close(spec.load(out)[0].eval()(x), model.eval()(x), rtol=0, atol=0)


def test_a_converted_file_can_be_converted_no_further(tmp_path, capsys):
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    assert main(["convert", RESNET, "--depths", "1,1", "--out", str(first)]) == 0
    assert "1 dropped" in capsys.readouterr().out
    assert main(["convert", str(first), "--out", str(second)]) == 2
    assert "no residual block" in capsys.readouterr().err
    assert not second.exists()


def test_a_network_from_python_is_converted_without_an_expression(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(
        "from pinets import create_model\ndef net(): return create_model('resnet18_cifar', width=8, depths=(1, 1))\n"
    )
    out = tmp_path / "pinet.safetensors"
    assert main(["convert", f"{tmp_path}/mine.py:net", "--stages", "layer1", "--out", str(out)]) == 0
    assert "1 converted" in capsys.readouterr().out
    with pytest.raises(ValueError, match="does not say which model it holds"):
        spec.load(out)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["CCP(4, 2, rank=2, order=2)"], 2, "no residual block"),
        (["resnet_18"], 2, "unknown layer 'resnet_18'; did you mean 'resnet18'"),
        ([RESNET, "--stages", "layer9"], 2, "layer9"),
        ([RESNET, "--depths", "1,x"], 2, "numbers from 0 on"),
        ([RESNET, "--weights", "nowhere.pth"], 2, "there is no file nowhere.pth"),
    ],
)
def test_what_cannot_be_converted_is_refused(tmp_path, capsys, words, code, message):
    out = tmp_path / "pinet.safetensors"
    assert main(["convert", *words, "--out", str(out)]) == code
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_damaged_weights_are_refused_by_name_and_in_our_own_words(tmp_path, capsys):
    for name in ("cut.safetensors", "cut.pth", "empty.pth", "text.pth"):
        torch.save(create_model("resnet18_cifar", width=4).state_dict(), tmp_path / name)
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes({"empty.pth": b"", "text.pth": b"not weights"}.get(name, content[:1000]))
        words = ["convert", RESNET, "--weights", str(tmp_path / name), "--out", str(tmp_path / "out.safetensors")]
        assert main(words) == 1
        told = capsys.readouterr().err
        assert name in told
        assert "complete safetensors file" in told or "it is damaged, or holds more than tensors" in told
        assert "weights_only" not in told


def test_the_first_mismatch_is_named(tmp_path, capsys):
    state = create_model("resnet18_cifar", width=8, depths=(1, 2)).state_dict()
    torch.save({**state, "more": torch.zeros(1)}, tmp_path / "more.pth")
    torch.save([1], tmp_path / "list.pth")
    del state["fc.bias"]
    torch.save(state, tmp_path / "less.pth")
    reasons = {"more.pth": "more is not part of it", "less.pth": "fc.bias is missing", "list.pth": "it holds list"}
    for name, reason in reasons.items():
        words = ["convert", RESNET, "--weights", str(tmp_path / name), "--out", str(tmp_path / "out.safetensors")]
        assert main(words) == 1
        assert f"{name} does not hold the weights of this model: {reason}" in capsys.readouterr().err


def test_reasons_are_told_line_by_line_with_the_right_counts(tmp_path, capsys):
    first = tmp_path / "first.safetensors"
    assert main(["convert", RESNET, "--out", str(first)]) == 0
    capsys.readouterr()
    assert main(["convert", str(first), "--out", str(tmp_path / "second.safetensors")]) == 2
    count = sum(parameter.numel() for parameter in spec.load(first)[0].parameters())
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"0 converted, 3 kept; {count:,} parameters before, {count:,} after"
    assert lines[1] == "  kept      layer1.0: it multiplies already"
    assert lines[-1] == "pinets convert: there is no residual block that could be converted"


def test_weights_of_another_model_and_pickled_code_are_refused(tmp_path, capsys):
    class Harm:
        def __reduce__(self):
            return (print, ("harm",))

    torch.save(create_model("resnet18_cifar", width=4).state_dict(), tmp_path / "other.pth")
    torch.save({"weight": Harm()}, tmp_path / "harm.pth")
    for name in ("other.pth", "harm.pth"):
        words = ["convert", RESNET, "--weights", str(tmp_path / name), "--out", str(tmp_path / "out.safetensors")]
        assert main(words) == 1
        captured = capsys.readouterr()
        assert f"{name} does not hold the weights" in captured.err
        assert "harm\n" not in captured.out
