"""What happens in a seed, for a person: who did what when, the events of each call, and what is wrong."""

from __future__ import annotations

from html import escape

from tests.simulation.cluster import Cluster
from tests.simulation.places import SqlitePlace
from tests.simulation.world import EPOCH, World

__all__ = ["html", "text"]

_COLOURS = ("#eef", "#efe", "#fee", "#ffe", "#eff", "#fef")


def _lines(world: World, cluster: Cluster) -> list[tuple[float, str, str]]:
    lines = list(world.story)
    for call in cluster.place.calls():
        for event in call.events():
            shown = {key: value for key, value in event.data.items() if key not in ("arguments", "entry", "boot", "up")}
            lines.append(
                (event.at - EPOCH, f"store {call.id}", f"{event.seq} {event.type} {event.state} {shown or ''}")
            )
    return sorted(lines, key=lambda line: line[0])


def text(world: World, cluster: Cluster) -> str:
    made = [f"seed {world.seed}: order {world.loop.order}, {world.loop.steps} steps"]
    made += [f"{at:10.4f}  {who:<24} {what}" for at, who, what in _lines(world, cluster)]
    told = "\n".join([*made, "", *(world.problems or ["nothing is wrong"])])
    # The folder has another name each time, and errors tell it.
    return told.replace(str(cluster.place.folder), "") if isinstance(cluster.place, SqlitePlace) else told


def html(world: World, cluster: Cluster) -> str:
    nodes = {node.name: _COLOURS[number % len(_COLOURS)] for number, node in enumerate(world.nodes)}
    rows = "".join(
        f'<tr style="background:{"#fbb" if who == "judge" else nodes.get(who, "#fff")}"><td>{at:.4f}<td>{escape(who)}<td>{escape(what)}'
        for at, who, what in _lines(world, cluster)
    )
    wrong = "".join(f"<li>{escape(problem)}" for problem in world.problems) or "<li>nothing"
    return (
        f"<!doctype html><meta charset=utf-8><title>seed {world.seed}</title><style>body{{font:14px system-ui}}td{{padding:1px 8px;"
        f"vertical-align:top}}</style><h1>Seed {world.seed}</h1><h2>Wrong</h2><ul>{wrong}</ul><table>{rows}</table>"
    )
