# A researcher tries the layers, asks what they are, and trains a recipe of their own.
set -e
pinets --version
pinets certify "Sequential(NCP(16, 8, rank=8, order=3), Linear(8, 4))"
pinets expand "CCP(3, 1, rank=2, order=2)" --top 3
pinets show "NCPSkip(8, 4, rank=4, order=3)" --diagram ncp.svg
python - <<'PYTHON'
import torch
from functools import partial
from pinets import NCP, bounds, certify, orders
from pinets.algebra import ball
from pinets.testing import assert_polynomial

layer = NCP(3, 8, rank=4, order=3, op=partial(torch.nn.Conv2d, kernel_size=3, padding=1))
z = torch.randn(2, 3, 6, 6)
assert_polynomial(layer, z, degree=3)
model = torch.nn.Sequential(layer, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(8, 2))
assert torch.allclose(orders(model, z).sum(0), model(z), atol=1e-4)
found = bounds(model, *ball(z[:1], 0.01))
assert (found.lower <= model(z[:1])).all() and (model(z[:1]) <= found.upper).all()
PYTHON
pinets init my_task.py --task
pinets train my_task.py:my_recipe --dry-run
pinets train my_task.py:my_recipe --set epochs=2
test -f runs/my_recipe/seed-0/report.html
pinets train my_task.py:my_recipe --set epochs=2 --resume
if pinets eval runs/my_recipe/seed-0 2> message; then exit 1; fi
grep -q -e "--code FILE.py" message
pinets eval runs/my_recipe/seed-0 --code my_task.py
echo "0.5,0.2" > rows.csv
pinets predict runs/my_recipe/seed-0 rows.csv --code my_task.py
