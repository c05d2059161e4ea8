"""The kinds of recipes: what each consists of, and how it is prepared for training."""
