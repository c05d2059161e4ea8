from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def _nothing_is_generated(monkeypatch):
    """torch.compile traces the network but generates no code, which takes long."""
    compile_ = torch.compile
    monkeypatch.setattr(torch, "compile", lambda model, **options: compile_(model, backend="eager", **options))
