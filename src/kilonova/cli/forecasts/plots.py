# SPDX-License-Identifier: Apache-2.0
"""Plots of a report, as SVG and PNG: a line for each policy over the days. They need matplotlib (the extra plots)."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a slow import
    from matplotlib.axes import Axes

Interval = Mapping[str, Any]
_FORMATS = ("svg", "png")
_MOST_RULES = 6


def can_plot() -> bool:
    """Tell whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_plots(report: Mapping[str, Any], folder: Path) -> None:
    """Write the plots into a folder that exists. Equal reports give equal files."""
    draw: Mapping[str, Callable[[Axes], None]] = {
        "acceptance": lambda axes: _lines(axes, report, "accepted servers [%]", _acceptance),
        "usage": lambda axes: _lines(axes, report, f"used {_scarce(report)} [%]", _of_usage(report, "used")),
        "balance": lambda axes: _lines(
            axes, report, f"deviation of used {_scarce(report)} among hosts [%]", _of_usage(report, "deviation")
        ),
        "stranded": lambda axes: _lines(axes, report, "stranded, largest class [%]", _stranded),
        "servers": lambda axes: _lines(axes, report, "servers", lambda each: float(each["servers"])),
        "moves": lambda axes: _lines(axes, report, "moves", lambda each: float(each["moves"])),
        "refusals": lambda axes: _refusals(axes, report["policies"]),
    }
    for name, into in draw.items():
        _write(folder / name, into)


def _write(path: Path, draw: "Callable[[Axes], None]") -> None:
    from matplotlib import rc_context  # noqa: PLC0415 - slow to import, and optional
    from matplotlib.figure import Figure  # noqa: PLC0415 - slow to import, and optional

    with rc_context({"svg.hashsalt": "kilonova", "svg.fonttype": "none"}):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        axes = figure.add_subplot()
        draw(axes)
        axes.set_xlabel(axes.get_xlabel() or "days")
        axes.grid(visible=True, alpha=0.3)
        for kind in _FORMATS:
            plain = {"Date": None} if kind == "svg" else {"Software": None}
            figure.savefig(path.with_suffix(f".{kind}"), format=kind, dpi=120, metadata=plain)


def _lines(axes: "Axes", report: Mapping[str, Any], label: str, value: Callable[[Interval], float | None]) -> None:
    """Draw a line for each policy. Intervals without a value are left out."""
    for policy in report["policies"]:
        points = [(each["until_days"], found) for each in policy["intervals"] if (found := value(each)) is not None]
        axes.plot([day for day, _ in points], [each for _, each in points], label=policy["policy"])
        if policy["lasts_days"] is not None:
            axes.axvline(policy["lasts_days"], color=axes.lines[-1].get_color(), linestyle=":", linewidth=1)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    axes.legend()


def _acceptance(interval: Interval) -> float | None:
    return 100 * interval["accepted"] / interval["arrived"] if interval["arrived"] else None


def _stranded(interval: Interval) -> float | None:
    return max((100 * float(each["stranded"]) for each in interval["usage"].values()), default=None)


def _scarce(report: Mapping[str, Any]) -> str:
    """Return the resource class that is used most at the end of the first policy."""
    usage = report["policies"][0]["intervals"][-1]["usage"]
    return max(usage, key=lambda name: usage[name]["used"], default="")


def _of_usage(report: Mapping[str, Any], name: str) -> Callable[[Interval], float | None]:
    scarce = _scarce(report)
    return lambda each: 100 * float(each["usage"][scarce][name]) if scarce in each["usage"] else None


def _refusals(axes: "Axes", policies: Sequence[Mapping[str, Any]]) -> None:
    """Draw the refused servers of each policy by rule, as stacked bars."""
    total = Counter[str]()
    for each in policies:
        total.update(each["refused_by"])
    rules = [rule for rule, _ in total.most_common(_MOST_RULES)]
    names = [each["policy"] for each in policies]
    bottom = [0] * len(policies)
    for rule in [*rules, "other rules"]:
        known = [
            each["refused_by"].get(rule, 0)
            if rule in rules
            else sum(count for other, count in each["refused_by"].items() if other not in rules)
            for each in policies
        ]
        if any(known):
            axes.barh(names, known, left=bottom, label=rule)
        bottom = [one + other for one, other in zip(bottom, known, strict=True)]
    axes.set_xlabel("refused servers, by the rule that removed the last hosts")
    if any(bottom):
        axes.legend()
