"""Features and labels per tick, on one thread: 30, 4,096 and 20,000 ports.

    python bench/classify.py

Traffic is made up: half of the ports are active in any tick. The yardstick in the same run is the
estimator's own `predict` on the same rows.
"""

import sys
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from classifier import store
from classifier.classify import Classifier
from classifier.features import Features

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "classifier"))

from traffic import tick

SPEED = 100e9


def pattern(ports, number):
    """(ports,) utilisation: jobs of 16 ports, each on for half of its own step."""
    job = np.arange(ports) // 16
    return np.where((number + job * 7) % (10 + job % 9) < 5 + job % 5, 0.4 + 0.5 * (job % 3) / 2, 0)


def median(call, times):
    spent = []
    for number in range(times):
        begin = time.perf_counter()
        call(number)
        spent.append(time.perf_counter() - begin)
    return float(np.median(spent))


def measure(model, ports, ticks):
    forest = model.forest
    speed = np.full(ports, SPEED)
    made = [
        tick((number + 1) * 0.1, 0.1, pattern(ports, number), pattern(ports, number))
        for number in range(ticks)
    ]
    features, classifier = Features(), Classifier(model)
    part = median(lambda number: features.update(made[number], speed), ticks)
    # The first seconds are too short a history for the model, so the later half is timed.
    half = ticks // 2
    for measured in made[:half]:
        classifier.update(measured, speed)
    whole = median(lambda number: classifier.update(made[half + number], speed), ticks - half)
    rows = features.update(made[-1], speed).rows
    repeat = 100 if ports < 100 else 5
    ours = median(lambda _: forest.outputs(rows), repeat)
    theirs = median(lambda _: forest.estimator.predict(rows), repeat)
    print(
        f"{ports:7}{part * 1e3:8.2f} ms{whole * 1e3:8.2f} ms{ours * 1e3:8.2f} ms"
        f"{theirs * 1e3:8.2f} ms{theirs / ours:7.1f}x"
    )
    if ports == 4096:
        print(f"        10 ticks a second take {whole * 10:.0%} of one core")


def main():
    model = store.load()
    print(f"{'ports':>7}{'features':>11}{'whole':>11}{'trees':>11}{'predict':>11}{'ratio':>8}")
    for ports, ticks in ((30, 600), (4096, 80), (20000, 80)):
        measure(model, ports, ticks)


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
