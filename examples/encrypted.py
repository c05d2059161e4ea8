"""
A digit that the server never sees
==================================

Homomorphic encryption can add and multiply, and nothing else. That is all a polynomial needs.
"""

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

from pinets.encrypted import Client, Server, make_keys, plan_network
from pinets.estimators import PolynomialNetClassifier

images, labels = load_digits(return_X_y=True)
classifier = PolynomialNetClassifier(order=2, rank=16, random_state=0).fit(images[:1500], labels[:1500])
network = classifier.to_polynomial().float()
inputs = torch.tensor(images, dtype=torch.float32)

# %%
# The plan: parameters of the encryption, and what to expect.

plan, circuit = plan_network(network, inputs[:200])
print(plan)

# %%
# The client makes the keys and encrypts; the secret key stays with it.

secret_key, evaluation_keys = (keys.to_bytes() for keys in make_keys(plan))
client = Client(plan, secret_key)
digit = inputs[1600:1601]
request = client.encrypt(digit)
print(f"{len(request):,} bytes go to the server, and look like this: {request[2000:2016].hex(' ')}")

# %%
# The server computes with what it cannot read, and the client reads the answer.

server = Server(plan, circuit)
answer = server.evaluate(request, server.load_keys(evaluation_keys))
scores = torch.as_tensor(client.decrypt(answer))[0]
print(f"decrypted: a {scores.argmax()}; in the clear: a {network(digit).argmax()}; written: a {labels[1600]}")

figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 2.6), width_ratios=(1, 2), layout="constrained")
left.imshow(digit.reshape(8, 8), cmap="gray_r")
left.set_title("what the client sees")
left.set_axis_off()
right.bar(range(10), scores)
right.set_xticks(range(10))
right.set_title("decrypted scores")
plt.show()
