"""The board: newest frame, freshness, and which forms are made ahead."""

from dataclasses import replace

import pytest

from exporters.bake import Baker, Form
from exporters.board import Board
from tests.exporters.frames import small_frame

FORM = Form(openmetrics=True, gzip=True)


def test_freshness():
    now = [100.0]
    board = Board(stale_after=10.0, now=lambda: now[0])
    assert board.newest is None
    assert "no tick" in board.problem()
    frame = small_frame()
    board.publish(frame, Baker().bake(frame))
    assert board.newest.frame is frame
    assert board.problem() == ""
    now[0] = 110.0
    assert board.problem() == ""
    now[0] = 110.5
    assert "10.5 s old" in board.problem()


@pytest.mark.parametrize(("seconds", "problem"), [(1.0, True), (60.0, False)])
def test_long_ticks_are_not_stale_between(seconds, problem):
    now = [0.0]
    board = Board(stale_after=10.0, now=lambda: now[0])
    frame = replace(small_frame(), seconds=seconds)
    board.publish(frame, Baker().bake(frame))
    now[0] = 100.0
    assert bool(board.problem()) is problem


def test_only_forms_asked_for_since_the_last_tick_are_made_ahead():
    board, baker = Board(), Baker()

    def tick():
        frame = small_frame()
        baked = baker.bake(frame)
        board.publish(frame, baked)
        return baked

    assert tick().ready(FORM) is None
    board.ask(FORM)
    assert tick().ready(FORM) is not None
    assert tick().ready(FORM) is None
