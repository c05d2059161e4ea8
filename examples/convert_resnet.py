"""
A Π-net from your ResNet
========================

A trained residual network becomes a Π-net that computes the same, to the last bit, until it is trained further.
"""

import matplotlib.pyplot as plt
import torch

from pinets import certify, create_model
from pinets.convert import to_pinet

torch.manual_seed(0)
resnet = create_model("resnet18_cifar", width=8, num_classes=10).eval()  # yours: with layers named as torchvision's
images = torch.randn(4, 3, 32, 32)

pinet, report = to_pinet(resnet)
pinet.eval()
print(report)
print("the same to the last bit:", torch.equal(resnet(images), pinet(images)))

# %%
# Each block gained a product :math:`\alpha\, s * r` of its shortcut and its branch, with :math:`\alpha = 0` at first.
# A few steps of training move it:

pinet.train()
optimizer = torch.optim.SGD(pinet.parameters(), lr=0.05)
labels = torch.randint(10, (4,))
for _ in range(10):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(pinet(images), labels).backward()
    optimizer.step()

scales = {
    name: value.abs().mean().item() for name, value in pinet.named_parameters() if "alpha" in name or "scale" in name
}
plt.figure(figsize=(6, 3), layout="constrained")
plt.bar(range(len(scales)), list(scales.values()))
plt.xlabel("block")
plt.ylabel("size of the product, |α|")
plt.show()

# %%
# This is a Π-net *with activations*: it multiplies, and keeps its ReLUs, so it is no polynomial of the image.
# :func:`pinets.certify` names what is in the way.

print(str(certify(pinet.eval(), images[:1])).partition("\n")[0])
