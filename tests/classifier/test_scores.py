"""Scores against sums done by hand."""

import numpy as np
import pytest

from classifier.calibration import calibrate, confidence, raw_score
from classifier.scores import calibration_error, scores, separation

TRUE = np.eye(4)[[0, 0, 1, 1]]
GUESS = np.eye(4)[[0, 1, 1, 3]]
BYTES = np.array([3.0, 1.0, 2.0, 2.0])


def test_scores_weigh_by_bytes():
    found = scores(GUESS, TRUE, BYTES)
    # parameter_sync: precision 3/3, recall 3/4. gradient_update: precision 2/3, recall 2/4.
    sync, grad = 2 * 1 * 0.75 / 1.75, 2 * (2 / 3) * 0.5 / (2 / 3 + 0.5)
    assert found["f1"] == pytest.approx((sync + grad) / 2, abs=1e-4)
    assert found["balanced"] == pytest.approx((0.75 + 0.5) / 2)
    assert found["accuracy"] == pytest.approx(5 / 8)
    assert found["share_error"] == pytest.approx((1 * 0.5 + 2 * 0.5) / 8, abs=1e-4)
    assert found["classes"]["other"]["precision"] == 0


def test_calibration_error_is_the_gap_between_stated_and_met():
    right = np.array([True, True, False, False])
    assert calibration_error(np.full(4, 0.5), right, np.ones(4)) == 0
    assert calibration_error(np.full(4, 0.9), right, np.ones(4)) == pytest.approx(0.4)


def test_separation_is_the_share_of_pairs_in_order():
    assert separation(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert separation(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0.5
    assert separation(np.array([3.0]), np.array([1.0])) == 0


def test_calibration_is_monotone_and_learns_the_rate():
    rng = np.random.default_rng(0)
    score = rng.random(5000)
    right = rng.random(5000) < score**2
    table = calibrate(score, right, np.ones(5000))
    assert (np.diff(table.probability) >= 0).all()
    assert confidence(table, np.array([0.8]))[0] == pytest.approx(0.64, abs=0.08)


def test_a_clear_lead_scores_higher_than_a_narrow_one():
    clear, narrow = np.array([[0.6, 0.2, 0.2, 0.0]]), np.array([[0.6, 0.4, 0.0, 0.0]])
    assert raw_score(clear)[0] > raw_score(narrow)[0]
