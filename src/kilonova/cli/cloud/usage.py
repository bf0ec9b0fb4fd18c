# SPDX-License-Identifier: Apache-2.0
"""The usage of hosts, kept up to date from answers of the operator API, and its picture on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.printing import counted, host_text, hosts_text, plain_table
from kilonova.records import dataclass

SERVERS = "servers"
#: Resource classes that come first, in this order.
_FIRST = ("VCPU", "PCPU", "MEMORY_MB", "DISK_GB")
#: Maximum number of resource classes with a column of their own.
_MOST_CLASSES = 5
_FULL, _NEARLY_FULL = 0.95, 0.8


@dataclass(frozen=True, slots=True)
class HostRow:
    """The usage of one host. ``resources``: resource class → (used, capacity)."""

    host: str
    node: str
    zone: str
    up: bool
    disabled: bool
    servers: int
    resources: Mapping[str, tuple[int, int]]

    def share(self, resource_class: str) -> float:
        """Return the used share of a resource class; 0 if the host has none."""
        used, capacity = self.resources.get(resource_class, (0, 0))
        return used / capacity if capacity else 0.0

    @property
    def fullest(self) -> float:
        return max(map(self.share, self.resources), default=0.0)

    @property
    def state(self) -> Text:
        if not self.up:
            return Text("down", style="red")
        return Text("disabled", style="yellow") if self.disabled else Text("up", style="green")


class Usage:
    """The hosts of the last answer, with the changes of later ones. ``version``: of the last answer."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.rows: dict[tuple[str, str], HostRow] = {}
        self.update(answer)

    def update(self, answer: Mapping[str, Any]) -> None:
        """Apply a later answer."""
        self.seq, self.version = int(answer["seq"]), str(answer["version"])
        if answer["whole"]:
            self.rows.clear()
            self.classes = _ordered(answer["resources"])
        for row in _rows(answer):
            self.rows[row.host, row.node] = row

    @property
    def orders(self) -> tuple[str, ...]:
        """What hosts can be sorted by."""
        return (*self.classes, SERVERS)

    def total(self, resource_class: str) -> tuple[int, int]:
        """Return the used amount and the capacity of all hosts."""
        pairs = [row.resources[resource_class] for row in self.rows.values() if resource_class in row.resources]
        return sum(used for used, _ in pairs), sum(capacity for _, capacity in pairs)

    def sorted_by(self, by: str | None) -> list[HostRow]:
        """Return the hosts, the one with the most first. ``by``: one of :attr:`orders`; None: the fullest resource."""

        def amount(row: HostRow) -> float:
            if by is None:
                return row.fullest
            return row.servers if by == SERVERS else row.share(by)

        return sorted(self.rows.values(), key=lambda row: (-amount(row), row.host, row.node))


def screen(usage: Usage, health: Mapping[str, Any], *, by: str | None, rows: int) -> RenderableType:
    """Return the picture: totals, what is running, and the first ``rows`` hosts."""
    hosts = usage.sorted_by(by)
    left = len(hosts) - rows
    more = [Text(f"and {hosts_text(left)} more", style="dim")] if left > 0 else []
    return Group(
        _heading(usage), Text(), _totals(usage), Text(), _running(health), Text(), _hosts(usage, hosts[:rows]), *more
    )


def _ordered(classes: Mapping[str, Any]) -> tuple[str, ...]:
    first = [name for name in _FIRST if name in classes]
    return (*first, *sorted(set(classes) - set(first)))


def _rows(answer: Mapping[str, Any]) -> list[HostRow]:
    resources = answer["resources"]
    columns = [(name, each["used"], each["capacity"]) for name, each in resources.items()]
    return [
        HostRow(
            host=host,
            node=node,
            zone=answer["zones"][index],
            up=answer["up"][index],
            disabled=answer["disabled"][index],
            servers=answer["servers"][index],
            resources={name: (used[index], capacity[index]) for name, used, capacity in columns if capacity[index]},
        )
        for index, (host, node) in enumerate(zip(answer["hosts"], answer["nodes"], strict=True))
    ]


def _heading(usage: Usage) -> Text:
    rows = usage.rows.values()
    text = Text(hosts_text(len(rows)), style="bold")
    for what, style, count in (
        ("up", "green", sum(row.up and not row.disabled for row in rows)),
        ("disabled", "yellow", sum(row.up and row.disabled for row in rows)),
        ("down", "red", sum(not row.up for row in rows)),
    ):
        if count:
            text.append(" · ")
            text.append(f"{count:,} {what}", style=style)
    text.append(f" · {counted(sum(row.servers for row in rows), 'server')} · change {usage.seq}")
    return text


def _totals(usage: Usage) -> Table:
    table = Table.grid(padding=(0, 2))
    for name in usage.classes[:_MOST_CLASSES]:
        used, capacity = usage.total(name)
        share = used / capacity if capacity else 0.0
        bar = ProgressBar(total=1.0, completed=min(share, 1.0), width=30, complete_style=_style(share))
        table.add_row(name, bar, f"{share:.0%}", f"{used:,} of {capacity:,}")
    return table


def _running(health: Mapping[str, Any]) -> Text:
    flows = health["workflows"]
    if flows is None:
        return Text("The database cannot be read.", style="red")
    text = Text(counted(flows["unfinished"], "workflow"))
    if flows["stuck"]:
        text.append(f", {flows['stuck']} stuck", style="red")
    failed = [check["name"] for check in health["checks"] if not check["healthy"]]
    if failed:
        text.append(f" · failed checks: {', '.join(failed)}", style="red")
    if health["read_only"]:
        text.append(" · read-only", style="yellow")
    return text


def _hosts(usage: Usage, rows: Sequence[HostRow]) -> Table:
    classes = usage.classes[:_MOST_CLASSES]
    table = plain_table()
    table.add_column("Host", overflow="fold")
    for title in ("Zone", "State"):
        table.add_column(title)
    for title in ("Servers", *classes):
        table.add_column(title, justify="right")
    for row in rows:
        name = host_text({"host": row.host, "node": row.node})
        table.add_row(Text(name), Text(row.zone), row.state, str(row.servers), *(_share(row, each) for each in classes))
    return table


def _share(row: HostRow, resource_class: str) -> Text:
    if resource_class not in row.resources:
        return Text("-", style="dim")
    share = row.share(resource_class)
    return Text(f"{share:.0%}", style=_style(share))


def _style(share: float) -> str:
    return "red" if share >= _FULL else "yellow" if share >= _NEARLY_FULL else "green"
