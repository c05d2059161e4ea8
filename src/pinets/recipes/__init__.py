"""Recipes: all values of a run, by name, and the functions that run them."""

from pinets.recipes import catalogue
from pinets.recipes.catalogue.experiments import EXPERIMENTS, Experiment, get_experiment
from pinets.recipes.kinds.classification import ClassificationRecipe, Images, Model, Speech
from pinets.recipes.kinds.faces import Embedder, FacePack, FaceRecipe, LfwPeople
from pinets.recipes.kinds.generation import GenerationRecipe, Network, Pictures
from pinets.recipes.kinds.measuring import protocol_names
from pinets.recipes.kinds.recipe import Recipe, Scale
from pinets.recipes.kinds.shapes import PCA, AutoencodingRecipe, Graph, Shapes, Spiral
from pinets.recipes.registry import get_recipe, list_recipes, recipe, recipe_from_json, recipe_notes
from pinets.recipes.running import compare, evaluate, is_main_process, run_folder, train
from pinets.recipes.sampling import interpolate, measure, real_images, sample, sample_batches
from pinets.recipes.shapes import ShapeModel, load_shape_model
from pinets.recipes.trained import Trained, trained
from pinets.recipes.values import RecipeError, from_json, set_values, to_json

__all__ = [
    "EXPERIMENTS",
    "PCA",
    "AutoencodingRecipe",
    "ClassificationRecipe",
    "Embedder",
    "Experiment",
    "FacePack",
    "FaceRecipe",
    "GenerationRecipe",
    "Graph",
    "Images",
    "LfwPeople",
    "Model",
    "Network",
    "Pictures",
    "Recipe",
    "RecipeError",
    "Scale",
    "ShapeModel",
    "Shapes",
    "Speech",
    "Spiral",
    "Trained",
    "catalogue",
    "compare",
    "evaluate",
    "from_json",
    "get_experiment",
    "get_recipe",
    "interpolate",
    "is_main_process",
    "list_recipes",
    "load_shape_model",
    "measure",
    "protocol_names",
    "real_images",
    "recipe",
    "recipe_from_json",
    "recipe_notes",
    "run_folder",
    "sample",
    "sample_batches",
    "set_values",
    "to_json",
    "train",
    "trained",
]
