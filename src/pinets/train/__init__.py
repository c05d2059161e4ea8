"""Training: loops that see ``nn.Module`` only, never a model class."""
