"""A few steps with the parameters divided among the processes (FSDP2), or in one process: ``sharded.py OUT``."""

from __future__ import annotations

import os
import sys

import torch
from torch import nn

from pinets import NCPSkip


def main(out: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(NCPSkip(8, 16, rank=12, order=3), NCPSkip(16, 4, rank=12, order=2))
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    targets = inputs[:, :4] * inputs[:, 4:]
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes > 1:
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        dist.init_process_group("gloo")
        mesh = init_device_mesh("cpu", (processes,))
        for polynomial in model:
            fully_shard(polynomial, mesh=mesh)
        fully_shard(model, mesh=mesh)
        share = slice(dist.get_rank(), None, processes)
        inputs, targets = inputs[share], targets[share]
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        (model(inputs) - targets).square().mean().backward()  # gradients are averaged over the processes
        optimizer.step()
    whole = {name: (v.full_tensor() if hasattr(v, "full_tensor") else v) for name, v in model.state_dict().items()}
    if int(os.environ.get("RANK", "0")) == 0:
        torch.save(whole, out)
    if processes > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
