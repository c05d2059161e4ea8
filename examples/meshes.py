"""
An autoencoder of shapes
========================

A Spiral Π-net encodes shapes of one topology as a few numbers: here, balls that are stretched, bent and twisted.
"""

import matplotlib.pyplot as plt
import torch
import trimesh

from pinets.models.spiral import spiral_autoencoder
from pinets.operators.mesh import Mesh
from pinets.tasks.meshes.geometry import HierarchyPlan, build_hierarchy

torch.manual_seed(0)
ball = trimesh.creation.icosphere(subdivisions=3)
template = Mesh(torch.tensor(ball.vertices), torch.tensor(ball.faces))
print(template)


def deform(amounts):
    """Stretch along z, bend in x, and twist about z."""
    stretch, bend, twist = amounts.T[:, :, None]
    x, y, z = template.vertices.float().T[:, None, :]
    z = z * (1 + stretch)
    angle = twist * z
    x, y = x * angle.cos() - y * angle.sin(), x * angle.sin() + y * angle.cos()
    return torch.stack([x + bend * z**2, 1.3 * y, z.expand_as(x)], dim=-1)


train, test = deform(torch.rand(256, 3) - 0.5), deform(torch.rand(32, 3) - 0.5)

# %%
# The template is down-sampled twice; a spiral convolution looks at each vertex and those around it.

plan = HierarchyPlan(factors=(4, 4), hops=(1, 1, 1), dilation=(1, 1, 1), lengths=(8, 8, 8))
hierarchy = build_hierarchy(template, plan)
print(hierarchy)

mean, std = train.mean(0), train.std()
errors = {}
for name, options in {"plain": {}, "NCP, order 2": {"layer": "ncp", "order": 2}}.items():
    torch.manual_seed(0)
    network = spiral_autoencoder(
        hierarchy, encoder=(3, 8, 16), decoder=(16, 16, 8, 3), latent=3, activation="none", **options
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    for _ in range(150):
        batch = (train[torch.randint(len(train), (16,))] - mean) / std
        loss = (network(batch) - batch).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        errors[name] = ((network((test - mean) / std) * std + mean) - test).norm(dim=2)
    print(f"{name}: mean distance {errors[name].mean():.4f} of a ball of radius 1")

# %%
# On shapes as simple as these, trained as shortly as here, the product makes no difference; :doc:`/results` says
# where it does.

figure, axes = plt.subplots(1, 2, figsize=(7, 3.4), subplot_kw={"projection": "3d"}, layout="constrained")
largest = max(float(error[0].max()) for error in errors.values())
for axis, (name, error) in zip(axes, errors.items(), strict=True):
    colours = plt.get_cmap("viridis")(error[0][template.faces].mean(1) / largest)
    shape = test[0].T
    surface = axis.plot_trisurf(*shape, triangles=template.faces, linewidth=0)
    surface.set_facecolor(colours)
    axis.set_title(f"{name}: error of a test shape", fontsize=9)
    axis.set_axis_off()
plt.show()
