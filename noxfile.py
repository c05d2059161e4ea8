"""``make test-all``: the tests with every supported Python that is there, and once with the lowest versions."""

import nox

nox.options.error_on_missing_interpreters = False
nox.options.default_venv_backend = "uv|virtualenv"

LOWEST = [
    "torch==2.8.0",
    "numpy==1.26.4",
    "pandas==2.2.1",
    "safetensors==0.4.3",
    "scikit-learn==1.7.0",
    "skops==0.11.0",
]


@nox.session(python=["3.11", "3.12", "3.13", "3.14"])
def tests(session: nox.Session) -> None:
    """The tests with the newest versions that fit."""
    session.install("-e", ".[dev]")
    session.run("python", "-m", "pytest", "-n", "2", "-m", "not slow", *session.posargs, env={"OMP_NUM_THREADS": "1"})


@nox.session(python="3.11")
def lowest(session: nox.Session) -> None:
    """The core with the lowest versions that pyproject.toml allows."""
    session.install(*LOWEST, "-e", ".[sklearn]", "pytest", "hypothesis", "scipy")
    session.run("python", "-m", "pytest", "tests/layers", "tests/algebra", "tests/estimators", *session.posargs)
