from __future__ import annotations

from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from pinets import CCP, NCP, NCPSkip, Step
from pinets.report.diagram import diagram

SVG = "{http://www.w3.org/2000/svg}"


def texts(network):
    """What is written in the picture, which must be well-formed."""
    return [element.text for element in ElementTree.fromstring(diagram(network)).iter(f"{SVG}text")]


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("model, sums, maps", [(CCP, 1, 1), (NCP, 0, 2), (NCPSkip, 1, 3)])
def test_every_order_has_its_product_and_its_maps(model, sums, maps, order):
    written = texts(model(4, 2, rank=3, order=order))
    assert written.count("×") == order - 1
    assert written.count("+") == sums * (order - 1)
    boxes = [text for text in written if text.startswith("Linear")]
    assert len(boxes) == 1 + maps * (order - 1) + 1  # the first map, those of each step, the head
    assert boxes[0] == "Linear 4→3"
    assert boxes[-1] == "Linear 3→2"


def test_a_product_of_polynomials_is_drawn_one_below_the_other():
    written = texts(nn.Sequential(CCP(4, 4, rank=3, order=2), NCP(4, 2, rank=3, order=3)))
    assert [text for text in written if text.startswith("polynomial")] == ["polynomial 1 of 2", "polynomial 2 of 2"]
    assert written.count("×") == 3


def test_of_other_networks_each_kind_of_step_is_drawn_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Step(nn.Identity(), norm=nn.Tanh()), Step(nn.Identity(), norm=nn.Tanh())
            self.third = Step(nn.Linear(2, 2), carry={"gate": nn.Identity()})

    written = texts(Twice())
    assert written.count("×") == 2
    assert {"2 times", "once", "Tanh"} <= set(written)


def test_all_is_within_the_picture():
    root = ElementTree.fromstring(diagram(NCPSkip(16, 4, rank=8, order=4)))
    width, height = float(root.get("width")), float(root.get("height"))
    for box in root.iter(f"{SVG}rect"):
        if box.get("x"):
            assert float(box.get("x")) >= 0
            assert float(box.get("x")) + float(box.get("width")) <= width
            assert float(box.get("y")) + float(box.get("height")) <= height


def test_names_cannot_break_the_picture():
    layer = type("<script>", (nn.Linear,), {})(2, 2)
    assert "<script> 2→2" in texts(nn.ModuleList([Step(layer)]))
    assert torch.is_tensor(layer.weight)


def test_a_network_without_steps_is_refused():
    with pytest.raises(ValueError, match="Linear has no polynomial and no step to draw"):
        diagram(nn.Linear(2, 2))
