"""The paper's tables and figures: what they compare."""

from __future__ import annotations

import re
from itertools import combinations

import pytest

from pinets import tasks as recipes
from pinets.engine.running import require_comparable
from pinets.tasks.experiments import EXPERIMENTS
from pinets.tasks.reproduction import experiments_at, papers_figure


@pytest.mark.parametrize("name, scale", [(n, s) for s in ("full", "medium", "small") for n in experiments_at(s)])
def test_what_an_experiment_compares_can_be_compared(name, scale):
    chosen = [recipes.get_recipe(one, scale) for one in EXPERIMENTS[name].names(scale)]
    for first, second in combinations(chosen, 2):
        require_comparable(first, second)


def test_no_recipe_of_the_paper_is_left_out():
    """What the paper gives a figure for is in an experiment."""
    covered = {name for experiment in EXPERIMENTS.values() for name in experiment.names("full")}
    numbered = {name for name in recipes.list_recipes() if re.match(r".*\d", papers_figure(name))}
    in_the_mesh_figure = {name for name in numbered if name.startswith(("coma_", "dfaust_"))}
    assert numbered - in_the_mesh_figure <= covered


def test_every_experiment_has_a_full_and_a_small_scale():
    assert experiments_at("full") == experiments_at("small") == list(EXPERIMENTS)
