"""The limits of a service: what it accepts before it reads, and for how long."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The limits of a service.

    Attributes:
        waiting: Requests that may wait or be evaluated at once; further ones are told to come back.
        uploads: Uploads of keys at once.
        inputs: Ciphertexts (throughput: sets of them) in a request.
        evaluate_seconds: The time for one ciphertext, or one set of them.
        upload_seconds: The time for a request's body to arrive.
        idle_seconds: The time between two pieces of a body, and for which a piece of an answer may stay unread.
        key_quota: Bytes of all evaluation keys on disk.
        key_seconds: How long unused evaluation keys are kept.
        keys_in_memory: Clients whose keys a worker keeps in memory.
    """

    waiting: int = 32
    uploads: int = 4
    inputs: int = 64
    evaluate_seconds: float = 60.0
    upload_seconds: float = 300.0
    idle_seconds: float = 20.0
    key_quota: int = 10**9
    key_seconds: float = 7 * 86400.0
    keys_in_memory: int = 8

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} must be positive, got {value}")
