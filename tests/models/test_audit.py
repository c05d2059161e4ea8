from __future__ import annotations

import pytest
import torch
from torch import nn

from pinets.cli import main
from pinets.models.audit import NETWORKS, audit, table
from pinets.models.literature import BilinearLayer, DPolyBlocks, PDCBlock, QuadraticLayer, RPolyBlock

SMALL = tuple(network for network in NETWORKS if network.part.startswith(("one ", "two ")))


def test_small_parts_get_the_certificates_they_deserve():
    rows = {row.network.name: row for row in audit(SMALL)}
    found = {name: (row.certificate.polynomial, row.certificate.degree) for name, row in rows.items()}
    assert found == {
        "R-PolyNets": (False, None),
        "R-PolyNets, batch norm": (True, 2),
        "D-PolyNets": (False, None),
        "D-PolyNets, batch norm": (True, 6),  # a product of degree 4, times an earlier one of degree 2
        "PDC": (False, None),
        "quadratic network": (True, 2),
        "bilinear MLP": (True, 2),
    }
    assert "instance_norm" in rows["PDC"].in_the_way
    quadratic = rows["quadratic network"]
    assert (quadratic.parameters, quadratic.multiplications) == (3 * (16 * 16 + 16), 3 * 16 * 16)
    lines = table(list(rows.values())).splitlines()
    assert len(lines) == 2 + len(rows)
    assert {line.count(" | ") for line in lines if not line.startswith("|-")} == {5}


def test_the_blocks_are_their_formulas():
    x = torch.randn(2, 8, 6, 6).double()
    rpoly, pdc = RPolyBlock(8).double().eval(), PDCBlock(8).double().eval()
    for block in (rpoly, pdc):
        nn.init.constant_(block.step.norm[-1].alpha, 0.7)
    r = rpoly.step.body(x)
    torch.testing.assert_close(rpoly(x), x + r + rpoly.step.norm(x * r))
    product = pdc.step.gate(x) * pdc.step.body(x)
    torch.testing.assert_close(pdc(x), x + pdc.branch(x) + pdc.step.norm(product))
    dpoly = DPolyBlocks(8).double().eval()
    nn.init.constant_(dpoly.reuse.norm.alpha, 0.7)
    first = x * dpoly.branches[0](x)
    y = x + dpoly.branches[0](x) + dpoly.tails[0](first)
    second = y * dpoly.branches[1](y)
    second = second + 0.7 * dpoly.reuse.gate(first) * second
    torch.testing.assert_close(dpoly(x), y + dpoly.branches[1](y) + dpoly.tails[1](second))
    z = torch.randn(3, 5).double()
    quadratic, bilinear = QuadraticLayer(5, 4).double(), BilinearLayer(5, 7).double()
    skip = quadratic.step.carry["state"]
    torch.testing.assert_close(quadratic(z), quadratic.step.gate(z) * quadratic.step.body(z) + skip(z))
    torch.testing.assert_close(bilinear(z), bilinear.head(bilinear.step.gate(z) * bilinear.step.body(z)))


def test_the_command_knows_its_networks(capsys, tmp_path):
    assert main(["audit", "--only", "quadratic"]) == 2
    assert "there is no network 'quadratic'" in capsys.readouterr().err
    assert main(["audit", "--only", "quadratic network", "--out", str(tmp_path / "audit.md")]) == 0
    assert "| quadratic network (one layer) | yes | 2 |" in (tmp_path / "audit.md").read_text()


@pytest.mark.parametrize("name", ["bilinear_mlp", "bilinear_transformer"])
def test_examples_are_polynomials_where_they_say_so(name):
    import runpy
    from pathlib import Path

    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / f"{name}.py"))
    from pinets import certify

    if name == "bilinear_mlp":
        network = example["BilinearMLP"]((4, 3, 2), hidden=5)
        assert certify(network, torch.randn(1, 4)).degree == 4
    else:
        block = example["BilinearBlock"]
        assert certify(block(4, 6).eval(), torch.randn(1, 3, 4)).degree == 6
        assert not certify(block(4, 6, nn.LayerNorm).eval(), torch.randn(1, 3, 4)).polynomial
