"""The named protocols: which features, how many samples, against which images."""

from __future__ import annotations

from dataclasses import dataclass

from pinets._nearest import did_you_mean

__all__ = ["PROTOCOLS", "Distances", "Protocol", "Score", "SmallDistance", "get_protocol", "protocol_names"]


@dataclass(frozen=True)
class Distances:
    """FID, KID, precision and recall with Inception's features.

    Attributes:
        name: The name of the protocol.
        samples: How many images are generated.
        reference: How many images they are compared with; None for all of the split.
        split: The split of the reference data set.
    """

    name: str
    samples: int
    reference: int | None
    split: str

    def __str__(self) -> str:
        images = "all" if self.reference is None else f"{self.reference:,}"
        return f"FID, KID, precision and recall of {self.samples:,} samples against {images} {self.split} images"


@dataclass(frozen=True)
class SmallDistance(Distances):
    """The Fréchet distance with the features of a small classifier of the reference set. Not comparable with FID."""

    def __str__(self) -> str:
        return (
            f"Fréchet distance of {self.samples:,} samples to {self.reference:,} {self.split} images with the features "
            "of a small classifier; NOT comparable with FID"
        )


@dataclass(frozen=True)
class Score:
    """The Inception score, which needs no reference."""

    name: str
    samples: int
    splits: int

    def __str__(self) -> str:
        return f"Inception score of {self.samples:,} samples in {self.splits} splits"


Protocol = Distances | Score

PROTOCOLS: dict[str, Protocol] = {
    protocol.name: protocol
    for protocol in (
        Distances("fid50k_train", 50_000, None, "train"),
        Distances("fid10k_test", 10_000, None, "test"),
        Distances("fid5k", 5_000, 5_000, "train"),
        Distances("fid2k", 2_048, 5_000, "train"),  # as many samples as features; fewer are warned of
        SmallDistance("fid_small", 5_000, 10_000, "train"),
        Score("is50k_10splits", 50_000, 10),
    )
}


def get_protocol(name: str) -> Protocol:
    """A protocol by its name.

    >>> print(get_protocol("fid5k"))
    FID, KID, precision and recall of 5,000 samples against 5,000 train images
    """
    if name not in PROTOCOLS:
        raise ValueError(f"there is no protocol {name!r}{did_you_mean(name, PROTOCOLS)}")
    return PROTOCOLS[name]


def protocol_names(metric: str | None) -> tuple[str, ...]:
    """The protocols in a recipe's ``metric``; unknown ones, and two of one kind, are refused.

    >>> protocol_names("fid50k_train, is50k_10splits")
    ('fid50k_train', 'is50k_10splits')
    >>> protocol_names("fid5k,fid2k")
    Traceback (most recent call last):
    ValueError: fid5k,fid2k: the values of these protocols have the same names; choose one of them
    """
    names = () if metric is None else tuple(name.strip() for name in metric.split(","))
    kinds = {type(get_protocol(name)) for name in names}
    if len(kinds) < len(names):
        raise ValueError(f"{metric}: the values of these protocols have the same names; choose one of them")
    return names
