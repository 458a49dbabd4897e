"""One tick: samples in, a frozen Frame out. Live and replay both run exactly this."""

import time as wall

from analyzer.congestion import CongestionScorer
from analyzer.frame import Frame
from analyzer.routes import Router
from classifier.classify import Classifier
from classifier.model import Model
from collector.ports import PortTable
from collector.rates import Rates
from collector.ticks import Window
from collector.topology import Fabric, Topology, bind


class Tick:
    """The stages in their order, with the state that each carries from tick to tick.

    Runs in one worker thread and does no I/O. `seconds_by_stage` holds what the last tick spent,
    `events` how many values were dropped or repaired since the start, by reason.
    """

    def __init__(self, ports: PortTable, topology: Topology, model: Model) -> None:
        self._ports = ports
        self._topology = topology
        self._fabric = bind(topology, ports)
        self._names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        self._rates = Rates()
        self._classifier = Classifier(model)
        self._scorer = CongestionScorer()
        self._router = Router()
        self._number = 0
        self.seconds_by_stage: dict[str, float] = {}
        self.events = self._rates.events

    def run(self, window: Window) -> Frame:
        """The Frame of one window of samples."""
        started = wall.perf_counter()
        fabric = self._bound()
        measured = self._rates.update(
            window.batches, window.end, window.seconds, fabric.nominal_bps
        )
        rated = wall.perf_counter()
        congestion = self._scorer.update(measured, fabric)
        scored = wall.perf_counter()
        labels = self._classifier.update(measured, congestion.speed_bps, fabric.faces_host())
        labelled = wall.perf_counter()
        suggestions = self._router.update(measured, congestion, fabric, self._ports)
        routed = wall.perf_counter()
        self.seconds_by_stage = {
            "rates": rated - started,
            "congestion": scored - rated,
            "labels": labelled - scored,
            "routes": routed - labelled,
        }
        frame = Frame(
            number=self._number,
            time=window.end,
            seconds=window.seconds,
            devices=self._names[0],
            ports=self._names[1],
            measured=measured,
            labels=labels,
            congestion=congestion,
            fabric=fabric,
            suggestions=suggestions,
        )
        self._number += 1
        return frame

    def _bound(self) -> Fabric:
        """The topology over the ports known now; sources only ever add ports."""
        if len(self._names[0]) != len(self._ports) or not self._number:
            self._fabric = bind(self._topology, self._ports)
            size = len(self._fabric)
            self._names = (tuple(self._ports.devices[:size]), tuple(self._ports.ports[:size]))
        return self._fabric
