"""``pinets init``: a commented recipe to change."""

from __future__ import annotations

import argparse
from importlib.resources import files
from pathlib import Path

from pinets.cli.parser import UsageError, Verbs, add_verb

__all__ = ["add_parser", "run"]


def add_parser(verbs: Verbs) -> None:
    parser = add_verb(
        verbs,
        "init",
        run,
        summary="write a commented recipe in Python, which pinets train FILE:NAME runs",
        details="With --task, the recipe has data, a loss and a metric of its own.",
        example="""
            pinets init my_experiment.py
            pinets init my_task.py --task
        """,
    )
    parser.add_argument("file", metavar="FILE.py", help="the file to write; it must not exist yet")
    parser.add_argument("--task", action="store_true", help="with data and a task of its own")


def run(args: argparse.Namespace) -> int:
    from pinets._files import write_bytes

    path = Path(args.file)
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise UsageError(f"a recipe is a Python file whose name Python can import, as my_experiment.py; got {path}")
    if path.exists():
        raise UsageError(f"{path} is there already: choose another name")
    template = files("pinets.cli") / "templates" / ("task.py.txt" if args.task else "recipe.py.txt")
    write_bytes(path, template.read_text(encoding="utf-8").replace("{file}", str(path)).encode())
    print(f"{path} written. Try next:\n  pinets train {path}:my_recipe --dry-run")
    return 0
