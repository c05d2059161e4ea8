# Somebody with a folder of photographs trains on it, looks at the report, predicts, and takes the network elsewhere.
set -e
python - <<'PYTHON'
import numpy as np
from pathlib import Path
from PIL import Image

rng = np.random.default_rng(0)
for name, top in (("sky", (90, 150, 230)), ("grass", (60, 160, 70))):
    Path("photos", name).mkdir(parents=True)
    for number in range(24):
        size = rng.integers(40, 70, 2)
        pixels = np.clip(np.array(top) + rng.integers(-60, 60, (*size, 3)), 0, 255).astype("uint8")
        Image.fromarray(pixels).save(f"photos/{name}/{number}.jpg")
PYTHON
pinets train images --data photos --dry-run
pinets train images --data photos --network strict,resnet --set epochs=3 --set data.size=16
test -f runs/photos-strict/seed-0/report.html
pinets certify runs/photos-strict/seed-0
pinets predict runs/photos-strict/seed-0 photos/sky/0.jpg photos/grass --json > run.json
pinets export runs/photos-strict/seed-0 --to onnx --out photos.onnx
pinets predict photos.onnx photos/sky/0.jpg photos/grass --json > onnx.json
python - <<'PYTHON'
import json

run, onnx = (json.load(open(f"{name}.json")) for name in ("run", "onnx"))
assert len(run) == 25
assert all(abs(a["scores"]["sky"] - b["scores"]["sky"]) < 1e-3 for a, b in zip(run, onnx, strict=True))
right = sum(row["class"] == row["input"].split("/")[1] for row in run)
assert right >= 23, right
PYTHON
