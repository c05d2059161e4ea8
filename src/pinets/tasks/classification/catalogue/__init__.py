"""Every recipe for a classifier, by name, with the paper's values."""

from pinets.tasks.classification.catalogue import cifar, encrypted, imagenet, polynomial, speech, strict

__all__ = ["cifar", "encrypted", "imagenet", "polynomial", "speech", "strict"]
