"""Identification by loops over every probe."""

from __future__ import annotations

import math

import numpy as np


def by_hand(probes, probe_subjects, gallery, gallery_subjects):
    rows = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (probes.numpy(), gallery.numpy())]
    scores = rows[0] @ rows[1].T
    mates, others, ranks = [], [], []
    for row, subject in zip(scores, probe_subjects.tolist(), strict=True):
        best = {}
        for score, who in zip(row, gallery_subjects.tolist(), strict=True):
            best[who] = max(best.get(who, -math.inf), score)
        mate = best.pop(subject, -math.inf)
        mates.append(mate)
        others.append(list(best.values()))
        ranks.append(0 if mate == -math.inf else 1 + sum(score >= mate for score in best.values()))
    return np.array(mates), others, ranks
