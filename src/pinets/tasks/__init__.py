"""Recipes: all values of a run, by name, and the functions that run them."""

from pinets.engine.recipe import Recipe, Scale, get_recipe, list_recipes, recipe, recipe_from_json, recipe_notes
from pinets.engine.running import compare, evaluate, is_main_process, run_folder, train
from pinets.engine.values import RecipeError, from_json, set_values, to_json
from pinets.tasks import classification, faces, generation, meshes
from pinets.tasks.classification.recipe import ClassificationRecipe, Images, Model, Speech
from pinets.tasks.experiments import EXPERIMENTS, Experiment, get_experiment
from pinets.tasks.faces.recipe import Embedder, FacePack, FaceRecipe, LfwPeople

__all__ = [
    "EXPERIMENTS",
    "ClassificationRecipe",
    "Embedder",
    "Experiment",
    "FacePack",
    "FaceRecipe",
    "Images",
    "LfwPeople",
    "Model",
    "Recipe",
    "RecipeError",
    "Scale",
    "Speech",
    "classification",
    "compare",
    "evaluate",
    "faces",
    "from_json",
    "generation",
    "get_experiment",
    "get_recipe",
    "is_main_process",
    "list_recipes",
    "meshes",
    "recipe",
    "recipe_from_json",
    "recipe_notes",
    "run_folder",
    "set_values",
    "to_json",
    "train",
]
