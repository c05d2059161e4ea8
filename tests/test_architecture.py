"""What keeps the package in order: who imports whom, what importing costs and changes, what is public."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import pinets

ROOT = Path(__file__).parents[1]
SOURCE = Path(pinets.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

# A part may import the parts of the lines above its own, and nothing else of pinets.
LEVELS = (
    {"_extras", "_files", "_limits", "_memory", "_modes", "_nearest"},
    {"_progress", "_storage"},
    {"polynomial"},
    {"layers"},
    {"operators"},
    {"algebra"},
    {"models", "testing"},
    {"convert"},
    {"spec"},
    {"encrypted", "export"},
    {"data"},
    {"engine"},
    {"estimators", "report"},
    {"tasks"},
    {"_resolve"},
    {"prediction"},
    {"cli"},
    {"__main__"},
)
HELPERS = LEVELS[0] | LEVELS[1]

# Parts that may see less than their level: they work with any network, not with those of pinets.
SEES_ONLY = {
    "data": HELPERS,
}


def part_of(path: Path) -> str:
    """The part of the package a file belongs to: algebra for algebra/certify.py, spec for spec.py."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def allowed(part: str) -> set[str]:
    level = next(position for position, parts in enumerate(LEVELS) if part in parts)
    return SEES_ONLY.get(part, set().union(*LEVELS[:level])) | {part}


def imported_parts(path: Path) -> set[str]:
    """The parts of pinets that a file imports, anywhere in it but for the sake of types alone."""
    found = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and is_type_checking(node.test))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("pinets.")}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively; write out where from"
            if node.module == "pinets":
                found |= {alias.name for alias in node.names} - {"__version__"}
            elif node.module is not None and node.module.startswith("pinets."):
                found.add(node.module.split(".")[1])
    return found


def is_type_checking(test: ast.expr) -> bool:
    return isinstance(test, ast.Name) and test.id == "TYPE_CHECKING"


def test_every_part_has_its_level():
    parts = {part_of(path) for path in FILES} - {"__init__"}
    assert parts <= set().union(*LEVELS), "a new part of the package: decide in LEVELS what it may import"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_upwards_only(path):
    if path == SOURCE / "__init__.py":
        return
    wrong = imported_parts(path) - allowed(part_of(path))
    assert not wrong, f"{part_of(path)} must not import {', '.join(sorted(wrong))} (see LEVELS above)"


def test_the_check_of_imports_finds_them(tmp_path):
    path = tmp_path / "file.py"
    path.write_text(
        "import pinets\ndef f():\n    from pinets.cli import main\n    from pinets import CCP, __version__\n"
    )
    assert imported_parts(path) == {"cli", "CCP"}
    assert "cli" not in allowed("polynomial")
    assert "layers" not in allowed("data")
    assert {"polynomial", "layers"} <= allowed("algebra")


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# What the extras of pyproject.toml bring, and NumPy, without which torch works too.
OPTIONAL = [
    *(
        "accelerate",
        "huggingface_hub",
        "hypothesis",
        "joblib",
        "matplotlib",
        "numpy",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "PIL",
    ),
    *("playwright", "pooch", "psutil", "safetensors", "scipy", "sklearn", "soundfile", "tenseal", "tensorboard"),
    *("tensorly", "torchvision", "tqdm", "trimesh", "webdataset"),
    *("prometheus_client", "starlette", "uvicorn", "zstandard"),
]

WITHOUT_EXTRAS = f"""
import sys, warnings
from importlib.machinery import PathFinder

class WithoutExtras:
    @staticmethod
    def find_spec(name, path=None, target=None):
        absent = name.partition(".")[0] in {OPTIONAL!r}
        return None if absent else PathFinder.find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch, where there is none
"""


def test_the_core_needs_torch_alone():
    run(
        WITHOUT_EXTRAS
        + """
import torch
from pinets import CCP, NCP, NCPSkip, Polynomial, PowerSum, Step
from pinets.algebra import certify, expand, interactions, orders
from pinets.spec import build
import pinets.testing, pinets.cli, benchmarks.core

model = build("Sequential(CCP(3, 3, rank=2, order=2), NCP(3, 2, rank=2, order=2))")
z = torch.randn(2, 3)
model(z).sum().backward()
assert certify(model, z).degree == 4
assert len(orders(model, z)) == 5
assert expand(model, z).degree == 4
"""
    )


def test_a_missing_extra_is_named():
    code = """
from pinets.spec import build, save
try:
    save("never-written.safetensors", build("Linear(2, 2)"), "Linear(2, 2)")
except ModuleNotFoundError as error:
    print(error)
"""
    assert 'needs safetensors; install it with: pip install "pinets[train]"' in run(WITHOUT_EXTRAS + code)


def test_verbs_say_what_numpy_comes_with():
    code = """
import contextlib, io
from pinets.cli import main
errors = io.StringIO()
with contextlib.redirect_stderr(errors):
    code = main(["train", "cifar10_resnet18", "--dry-run"])
print(code, errors.getvalue())
"""
    assert 'pip install "pinets[train]"' in run(WITHOUT_EXTRAS + code)


def test_importing_changes_nothing_global():
    run(
        """
import logging, os, random, signal, sys, warnings
import torch

def state():
    return {
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "threads": (torch.get_num_threads(), torch.get_num_interop_threads()),
        "gradients": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly": torch.is_anomaly_enabled(),
        "precision": torch.get_float32_matmul_precision(),
        "cudnn": (torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "torch rng": torch.get_rng_state().tolist(),
        "python rng": random.getstate(),
        "environment": dict(os.environ),
        "path": list(sys.path),
        "warnings": list(warnings.filters),
        "logging": (logging.root.level, list(logging.root.handlers)),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
    }

before = state()
import pinets, pinets.algebra, pinets.layers, pinets.spec, pinets.testing, pinets.cli, benchmarks.core
pinets.CCP, pinets.Step
after = state()
changed = [name for name in before if before[name] != after[name]]
assert not changed, changed
"""
    )


def modules() -> list[str]:
    return ["pinets", *(found.name for found in pkgutil.walk_packages([str(SOURCE)], "pinets."))]


def test_everything_imports_where_there_is_no_posix():
    """Windows has neither fork nor resource nor fcntl, and no C library to ask for mallopt."""
    names = [name for name in modules() if not name.endswith("__main__")]
    run(
        f"""
import ctypes, importlib, multiprocessing, os, platform, signal, sys
import torch, numpy, scipy, sklearn, accelerate, matplotlib.figure, PIL.Image, webdataset, trimesh, torch_geometric

class NoLibrary(ctypes.CDLL):
    def __init__(self, name, *given, **options):
        if name is None:
            raise TypeError("Windows has no library of that name")
        super().__init__(name, *given, **options)

ctypes.CDLL = NoLibrary
for name in ("fork", "forkpty", "register_at_fork", "getuid", "sched_getaffinity"):
    vars(os).pop(name, None)
for name in ("SIGKILL", "SIGUSR1", "SIGALRM", "alarm"):
    vars(signal).pop(name, None)
multiprocessing.get_all_start_methods = lambda: ["spawn"]
for name in ("resource", "fcntl", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in {names!r}:
    importlib.import_module(name)
platform.libc_ver = lambda: ("", "")
from pinets._memory import keep_memory
assert keep_memory() is False
"""
    )


@pytest.mark.parametrize("name", [name for name in modules() if name.startswith(("pinets.algebra.", "pinets.models."))])
def test_no_name_hides_a_module(name):
    """``import pinets.algebra.bounds as b`` must give a module or an error, never a function."""
    parent, _, own = name.rpartition(".")
    importlib.import_module(name)
    assert inspect.ismodule(getattr(sys.modules[parent], own)), f"{name} is a module, hidden by something of its name"


@pytest.mark.parametrize("name", modules())
def test_public_names_exist_and_those_for_users_are_documented(name):
    if name.endswith("__main__"):
        return
    module = importlib.import_module(name)
    assert module.__doc__, f"{name} does not say what it is"
    public = getattr(module, "__all__", [])
    missing = [word for word in public if not hasattr(module, word)]
    assert not missing, f"{name}.__all__ names what is not there: {missing}"
    for_users = hasattr(module, "__path__") or name.count(".") == 1  # a package, or a module beside them
    if for_users and not name.startswith(("pinets._", "pinets.cli")):
        undocumented = [word for word in public if lacks_documentation(getattr(module, word))]
        assert not undocumented, f"{name} has no documentation for {undocumented}"


def lacks_documentation(value: object) -> bool:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        return False  # a constant, a type alias, a module
    text = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
    return not text or text.startswith(f"{value.__name__}(")  # what dataclass writes where nobody did


def test_files_stay_short():
    tests = sorted((ROOT / "tests").rglob("*.py"))
    long = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in [*FILES, *tests]
    }
    assert not {path: lines for path, lines in long.items() if lines > 450}


def unsafe_calls(tree: ast.AST) -> list[str]:
    """Calls that run what a text or a file says."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        safe = any(
            keyword.arg == "weights_only" and getattr(keyword.value, "value", None) is True for keyword in node.keywords
        )
        if called in ("eval", "exec", "pickle.load", "pickle.loads", "yaml.load", "numpy.load", "np.load"):
            found.append(f"line {node.lineno}: {called}")
        if called == "torch.load" and not safe:
            found.append(f"line {node.lineno}: torch.load without weights_only=True")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_nothing_runs_what_a_file_says(path):
    assert unsafe_calls(ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_check_of_unsafe_calls_finds_them():
    source = "eval('x')\nmodel.eval()\npickle.load(file)\ntorch.load(path)\ntorch.load(path, weights_only=True)\n"
    found = unsafe_calls(ast.parse(source))
    assert [line.partition(":")[0] for line in found] == ["line 1", "line 3", "line 4"]


def test_constraints_pin_all_that_development_needs():
    """Every requirement of ".[dev]" has a pin, and the pin lies in the range that pyproject.toml promises."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(
        line.lower().replace("_", "-").split("==")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line and not line.startswith("#")
    )
    wanted = [Requirement(text) for text in [*project["dependencies"], "pinets[dev]"]]
    while wanted:
        requirement = wanted.pop()
        for extra in requirement.extras:
            wanted += [Requirement(text) for text in project["optional-dependencies"][extra]]
        if requirement.name != "pinets":
            assert requirement.name in pins, f"{requirement.name} has no pin in constraints.txt"
            assert requirement.specifier.contains(pins[requirement.name]), requirement


@pytest.mark.parametrize(
    "path", [path for path in FILES if part_of(path) in ("data", "engine")], ids=lambda path: str(path.name)
)
def test_libraries_do_not_name_options_of_the_command_line(path):
    texts = [
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert not [text for text in texts if re.search(r"\s\(?--[a-z]", text)]
