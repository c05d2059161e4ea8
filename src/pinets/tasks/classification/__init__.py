"""Classifiers of images and of speech."""

from pinets.tasks.classification import catalogue

__all__ = ["catalogue"]
