"""The pixels of faces, as networks that embed them take them."""

from __future__ import annotations

from pinets.data.transforms.images import Normalize

__all__ = ["FACE_PIXELS"]

FACE_PIXELS = Normalize((127.5 / 255,) * 3, (128 / 255,) * 3)  # of bytes: (x - 127.5) / 128
