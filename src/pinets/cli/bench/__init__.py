"""``pinets bench``: measure speed on this machine, one module per benchmark."""

from __future__ import annotations

from importlib import import_module

from pinets.cli.parser import Verbs, add_verb

__all__ = ["add_parser"]

# A benchmark is a module of this package with a function `add_parser(benches)`, imported as cheaply as a verb.
BENCHMARKS = ("core", "resnet", "fid", "bounds", "export", "encrypted", "mesh", "faces")


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "bench",
        None,
        summary="measure speed on this machine",
        example="pinets bench core --quick",
    )
    benches = parser.add_subparsers(title="benchmarks", metavar="BENCHMARK", dest="benchmark", required=True)
    for benchmark in BENCHMARKS:
        import_module(f"pinets.cli.bench.{benchmark}").add_parser(benches)
