from __future__ import annotations

import pytest

from pinets.report import RecipeSummary, plus_minus, result_rows


@pytest.mark.parametrize(
    "mean, deviation, text",
    [
        (0.8141, 0.0035, "0.8141 ± 0.0035"),
        (0.01234, 0.0141, "0.012 ± 0.014"),
        (2.7786, 3.4275, "2.8 ± 3.4"),
        (1234.5, 0.0, "1234"),
        (11.0004, 0.0, "11.00"),
        (41_000.0, 0.0, "41,000"),
        (float("inf"), 0.0, "inf"),
        (0.0, 0.02, "0.000 ± 0.020"),
    ],
)
def test_digits_follow_the_deviation(mean, deviation, text):
    assert plus_minus(mean, deviation) == text


def test_a_metric_that_is_always_zero_is_left_out_and_a_missing_one_is_a_dash():
    one = RecipeSummary("a", 2, 10, 60.0, {"error_mm": (1.5, 0.1), "non_finite": (0.0, 0.0)})
    two = RecipeSummary("b", 1, 10, 60.0, {"error_mm": (2.0, 0.0), "non_finite": (0.0, 0.0), "kid": (0.1, 0.0)})
    header, first, second = result_rows([one, two])
    assert header[4:] == ["error, mm", "KID"]
    assert first[4:] == ["1.50 ± 0.10", "-"]
    assert second[4:] == ["2", "0.1000"]
