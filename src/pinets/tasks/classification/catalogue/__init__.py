"""Every recipe for a classifier, by name, with the paper's values."""

from pinets.tasks.classification.catalogue import certified, cifar, encrypted, imagenet, polynomial, speech, strict

__all__ = ["certified", "cifar", "encrypted", "imagenet", "polynomial", "speech", "strict"]
