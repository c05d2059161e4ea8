"""Recipes: all values of a run, by name, and the functions that run them."""

from pinets.recipes import cifar, imagenet, polynomial, speech
from pinets.recipes.classification import ClassificationRecipe, Images, Model, Speech
from pinets.recipes.recipe import Recipe, Scale
from pinets.recipes.registry import get_recipe, list_recipes, recipe, recipe_from_json, recipe_notes
from pinets.recipes.running import compare, evaluate, is_main_process, run_folder, train
from pinets.recipes.values import RecipeError, from_json, set_values, to_json

__all__ = [
    "ClassificationRecipe",
    "Images",
    "Model",
    "Recipe",
    "RecipeError",
    "Scale",
    "Speech",
    "cifar",
    "compare",
    "evaluate",
    "from_json",
    "get_recipe",
    "imagenet",
    "is_main_process",
    "list_recipes",
    "polynomial",
    "recipe",
    "recipe_from_json",
    "recipe_notes",
    "run_folder",
    "set_values",
    "speech",
    "to_json",
    "train",
]
