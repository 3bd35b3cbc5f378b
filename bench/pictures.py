"""A picture of a job: cost against size, both on log scales, as plain SVG without a library.

One panel for each panel that the cases name; lading thick, the peers in colours, floors dashed. A job
with one size gets a column of dots.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM, _RIGHT = 620, 330, 74, 46, 44, 190
_OURS = "#0b5fa5"
_COLOURS = ("#c2410c", "#7c3aed", "#15803d", "#b45309", "#be185d", "#0f766e")
_FLOOR = "#6b7280"

Points = list[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class _Line:
    name: str
    points: Points
    colour: str
    dashed: bool = False
    width: float = 1.6


@dataclass(frozen=True, slots=True)
class _Scale:
    """From a value to a pixel."""

    low: float
    high: float
    first: float
    last: float

    def at(self, value: float) -> float:
        low, high = math.log10(self.low), math.log10(self.high)
        share = 0.5 if low == high else (math.log10(max(value, self.low)) - low) / (high - low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> Iterable[float]:
        begin, end = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        return (10.0**power for power in range(begin, end + 1) if self.low <= 10.0**power <= self.high)


def picture(title: str, cases: Mapping[str, Mapping[str, Any]]) -> str:
    """The SVG of a job's cases, as results.json has them."""
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for case in cases.values():
        panels.setdefault(case["panel"], []).append(case)
    drawn = [
        f'<g transform="translate(0 {number * _HEIGHT})">{_panel(title, name, own)}</g>'
        for number, (name, own) in enumerate(panels.items())
    ]
    height = _HEIGHT * len(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="11">'
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>{"".join(drawn)}</svg>\n'
    )


def _panel(title: str, name: str, cases: list[Mapping[str, Any]]) -> str:
    lines = _lines(cases)
    unit = cases[0]["unit"]
    better = "less is better" if cases[0]["better"] == "lower" else "more is better"
    heading = f"{title}: {name}" if name else title
    text = [
        _text(_LEFT, 20, heading, size=13, weight="bold"),
        _text(_LEFT, 35, f"{_unit(unit)}, {better}", colour=_FLOOR),
    ]
    values = [y for line in lines for _, y in line.points]
    if not values:
        return "".join([*text, _text(_LEFT, 80, "nothing measured")])
    x, y = _scales([x for line in lines for x, _ in line.points], values)
    return "".join([*text, _axes(x, y, sorted({p[0] for line in lines for p in line.points})),
                    *(_drawn(line, x, y) for line in lines), _legend(lines)])  # fmt: skip


def _lines(cases: list[Mapping[str, Any]]) -> list[_Line]:
    names = {
        kind: list(dict.fromkeys(name for case in cases for name in case[kind]))
        for kind in ("peers", "floors")
    }
    ours = [(_x(case), case["lading"]) for case in cases]
    found = [_Line("lading", _numbers(ours), _OURS, width=3.0)]
    for number, name in enumerate(names["peers"]):
        points = _numbers([(_x(case), case["peers"].get(name)) for case in cases])
        found.append(_Line(name, points, _COLOURS[number % len(_COLOURS)]))
    for number, name in enumerate(names["floors"]):
        points = _numbers([(_x(case), case["floors"].get(name)) for case in cases])
        found.append(_Line(f"floor: {name}", points, _FLOOR if not number else "#9ca3af", dashed=True))
    return found


def _x(case: Mapping[str, Any]) -> float:
    return max(float(case["x"]), 1.0)  # none at all is drawn at one


def _numbers(points: list[tuple[float, Any]]) -> Points:
    return [(x, float(y)) for x, y in points if isinstance(y, int | float) and y > 0]


def _scales(xs: list[float], ys: list[float]) -> tuple[_Scale, _Scale]:
    low, high = 10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys)))
    high = high if high > low else low * 10
    x = _Scale(min(xs), max(xs), _LEFT + 18, _WIDTH - _RIGHT - 18)
    return x, _Scale(low, high, _HEIGHT - _BOTTOM, _TOP)


def _axes(x: _Scale, y: _Scale, sizes: list[float]) -> str:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    parts = [f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#111827"/>']
    for tick in y.ticks():
        at = y.at(tick)
        parts.append(f'<path d="M{_LEFT} {at:.1f}H{right}" stroke="#e5e7eb"/>')
        parts.append(_text(_LEFT - 6, at + 4, _short(tick), anchor="end"))
    for size in sizes:
        parts.append(_text(x.at(size), bottom + 16, _short(size), anchor="middle"))
    return "".join(parts)


def _drawn(line: _Line, x: _Scale, y: _Scale) -> str:
    points = [(x.at(a), y.at(b)) for a, b in line.points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    dots = "".join(
        f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{line.width + 1.4}" fill="{line.colour}"/>' for a, b in points
    )
    return (
        f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="{line.width}"{dash}/>'
        + dots
    )


def _legend(lines: list[_Line]) -> str:
    left = _WIDTH - _RIGHT + 14
    parts = []
    for number, line in enumerate(lines):
        at = _TOP + 10 + number * 18
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(
            f'<path d="M{left} {at}h22" stroke="{line.colour}" stroke-width="{line.width}"{dash}/>'
            + _text(left + 28, at + 4, line.name if line.points else f"{line.name} (none)")
        )
    return "".join(parts)


def _text(
    x: float,
    y: float,
    text: str,
    *,
    size: int = 11,
    anchor: str = "start",
    weight: str = "normal",
    colour: str = "#111827",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{colour}">{escape(text)}</text>'
    )


def _unit(unit: str) -> str:
    return {"s": "seconds", "/s": "a second", "s a file": "seconds a file"}.get(unit, unit)


def _short(value: float) -> str:
    for scale, name in ((1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{name}"
    return f"{value:g}"
