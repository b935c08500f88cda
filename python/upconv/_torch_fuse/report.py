# SPDX-License-Identifier: Apache-2.0
"""What was fused, what was not, and why: for people (str) and for tests (the fields)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Fused:
    """A transposed convolution with its tail."""

    convolution: str
    operators: tuple[str, ...]
    epilogue: str
    stop: str

    def __str__(self) -> str:
        lines = [f"  fused  {' + '.join((self.convolution, *self.operators))}"]
        if self.epilogue:
            lines.append(f"         as   {self.epilogue}")
        return "\n".join([*lines, f"         ends {self.stop}"])


@dataclass(frozen=True)
class Left:
    """A transposed convolution that PyTorch computes."""

    convolution: str
    reason: str

    def __str__(self) -> str:
        return f"  left   {self.convolution}: {self.reason}"


@dataclass
class Report:
    """One graph that was traced."""

    title: str = ""
    fused: list[Fused] = field(default_factory=list)
    left: list[Left] = field(default_factory=list)


@dataclass(frozen=True)
class Explanation:
    """Of a model: every graph that was traced so far, and the convolutions that were in none."""

    model: str
    graphs: tuple[Report, ...]
    unseen: tuple[str, ...]
    note: str = ""

    @property
    def fused(self) -> tuple[Fused, ...]:
        return tuple(entry for graph in self.graphs for entry in graph.fused)

    @property
    def left(self) -> tuple[Left, ...]:
        return tuple(entry for graph in self.graphs for entry in graph.left)

    def __str__(self) -> str:
        lines = [f"{self.model}: {self._summary()}"]
        if self.note:
            lines.append(self.note)
        for entries, titles in _grouped(self.graphs).items():
            lines += [*titles, *map(str, entries)]
        if self.unseen:
            lines.append("in no graph yet (not called, or in code that cannot be traced)")
            lines += [f"  left   {name}" for name in self.unseen]
        return "\n".join(lines)

    def _summary(self) -> str:
        if not self.graphs:
            return "nothing traced" if self.note else _NOT_YET
        fused = {entry.convolution for entry in self.fused}
        names = fused | {entry.convolution for entry in self.left} | set(self.unseen)
        return f"{len(fused)} of {_count(len(names), 'transposed convolution')} fused"


_NOT_YET = "not traced yet; call it, or give fuse() example_inputs"


def _grouped(graphs: Sequence[Report]) -> dict[tuple[Fused | Left, ...], list[str]]:
    """The titles of the graphs that say the same, by what they say."""
    groups: dict[tuple[Fused | Left, ...], list[str]] = {}
    for graph in graphs:
        if graph.fused or graph.left:
            titles = groups.setdefault((*graph.fused, *graph.left), [])
            if graph.title not in titles:
                titles.append(graph.title)
    return groups


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
