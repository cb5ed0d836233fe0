"""Plots a calibration: solve rate against dollars per task."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scrout.intervals import Estimate
from scrout.plot import Mark, Point, svg_file
from scrout.route.calibrate import Calibration
from scrout.route.stats import hull


def svg(calibration: Calibration) -> str:
    solo = {
        line.name.removeprefix("always "): (line.usd, line.solve)
        for line in calibration.baselines
        if line.kind not in ("mix", "oracle")
    }
    ours = Mark(f"ours ({calibration.policy})", calibration.ours_usd, calibration.ours_solve, "square", routed=True)
    title = f"{calibration.tasks} tasks, {calibration.repositories} repositories, {calibration.arm} arm"
    key = "circles: fixers alone; dashed: mixing all; dotted: cheapest and strongest; square: ours, 95% intervals"
    return beside(title, key, solo, [ours])


def beside(title: str, key: str, solo: Mapping[str, Point], ours: list[Mark]) -> str:
    """Marks for single fixers, for mixes of all of them or of the cheapest and the strongest, and for other
    strategies.
    """
    alone = [Mark(name, _exact(usd), _exact(solve)) for name, (usd, solve) in solo.items()]
    mix = [(float(usd), float(solve)) for usd, solve in hull(np.array(list(solo.values())))]
    strongest = max(solo.values(), key=lambda one: (one[1], -one[0]))
    return svg_file(title, key, [*alone, *ours], mix, [mix[0], strongest])


def _exact(value: float) -> Estimate:
    return Estimate(value=value, low=value, high=value)
