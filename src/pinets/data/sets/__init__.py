"""Datasets in the layouts of their authors."""
