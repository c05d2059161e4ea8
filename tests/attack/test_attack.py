"""Every fuzzer for a few seconds, and for a minute in ``make verify``."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pinets.encrypted import FileError
from tests.attack.__main__ import FUZZERS, run
from tests.attack.tally import Tally, cases


def attack(name: str, seconds: float) -> None:
    try:
        tally = run(name, seconds, seed=0)
    except ModuleNotFoundError as error:
        pytest.skip(f"needs {error.name}")
    assert tally.cases > 0
    assert tally.failures == []


@pytest.mark.parametrize("name", FUZZERS)
def test_for_seconds(name):
    attack(name, seconds=3)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUZZERS)
def test_for_a_minute(name):
    attack(name, seconds=60)


def test_the_same_seed_gives_the_same_cases():
    first, second = (next(iter(cases(0.0, seed=7))) for _ in "ab")
    assert first[0] == second[0] == "case 7.0"
    assert first[1].random() == second[1].random()
    assert len(list(cases(0.0, seed=7))) == 1


def test_failures_are_told():
    tally = Tally()
    tally.check(1 > 0, "never told")
    tally.check(1 > 2, "case 0.1: 1 is not more than 2")
    assert tally.failures == ["case 0.1: 1 is not more than 2"]


def test_rotation_keys_are_not_taken_for_the_relinearisation_key():
    """They have the same form, and SEAL reads through a null pointer."""
    pytest.importorskip("tenseal")
    from tests.attack.ciphertexts import exchange, opened, use

    made = exchange("latency")
    keys = opened(made.files["evaluation keys"])
    swapped = replace(keys, parts={**keys.parts, "relinearisation": keys.parts["rotation"]}).to_bytes()
    with pytest.raises(FileError, match="evaluation keys"):
        use(made, {**made.files, "evaluation keys": swapped})
