"""Query nodes become running operators, wired in the order in which data flows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, assert_never

from viewlet.signals import nodes
from viewlet.signals.functions import RealInverse
from viewlet.signals.keys import KeySpaces
from viewlet.signals.nodes import Node, inputs
from viewlet.signals.operators import filters, frames, lifetimes, samples, temporal
from viewlet.signals.operators.base import Operator
from viewlet.signals.operators.source import Ingress


@dataclass
class Program:
    """Operators in topological order; ``consumers[i]`` lists (operator, side) fed by operator i."""

    operators: list[Operator[Any]] = field(default_factory=list)
    consumers: list[list[tuple[int, int]]] = field(default_factory=list)
    producers: list[list[int]] = field(default_factory=list)
    keyed_by: list[Ingress | lifetimes.Regroup] = field(default_factory=list)
    sources: list[Ingress] = field(default_factory=list)


def lower(root: Node, spaces: KeySpaces, clock: str) -> Program:
    """The program of a query; a node object that occurs twice runs once."""
    program = Program()
    lenient = any(isinstance(node, nodes.Deduplicate) for node in walk(root))
    tracked = {id(node.input) for node in walk(root) if isinstance(node, nodes.FrameUpdate)}
    payloads = [n.payload for n in walk(root) if isinstance(n, nodes.Source) and n.payload is not None]
    zero = payloads[0].zero if payloads else 0
    done: dict[int, int] = {}

    def place(node: Node) -> int:
        if id(node) in done:
            return done[id(node)]
        fused = _fused(node)
        upstream = [place(child) for child in (inputs(fused) if fused else inputs(node))]
        operator = _operator(node, fused, spaces, clock, lenient, id(node) in tracked)
        operator.zero, operator.spaces = zero, spaces
        number = len(program.operators)
        program.operators.append(operator)
        program.consumers.append([])
        program.producers.append(upstream)
        if isinstance(operator, Ingress):
            program.sources.append(operator)
        owner = (
            operator if isinstance(operator, Ingress | lifetimes.Regroup) else program.keyed_by[upstream[0]]
        )
        program.keyed_by.append(owner)
        if isinstance(operator, temporal.SignalCheck):
            operator.describe = _describer(owner)
        for side, producer in enumerate(upstream):
            program.consumers[producer].append((number, side))
        done[id(node)] = number
        return number

    place(root)
    return program


def walk(node: Node) -> list[Node]:
    """A node and all nodes below it."""
    return [node] + [below for child in inputs(node) for below in walk(child)]


def _describer(owner: Ingress | lifetimes.Regroup) -> Callable[[int], str]:
    return lambda key: owner.index.describe(key) if owner.index is not None else str(key)


def _fused(node: Node) -> nodes.Window | nodes.FrameMap | None:
    """The node directly below that runs in the same operator, so that no array of windows lies between.

    A spectrum takes in the window below it, overlap-add of real windows the inverse transform below it.
    """
    match node:
        case nodes.Spectra(input=nodes.Window() as below):
            return below
        case nodes.Unwindow(input=nodes.FrameMap(function=RealInverse(size=size)) as below):
            return below if size == node.size else None
        case _:
            return None


def slides(window: nodes.Window, node: nodes.Spectra) -> bool:
    """Is it cheaper to slide the spectrum than to compute it anew?"""
    cheap = window.hop * frames.INCREMENTAL_RATIO <= window.size
    return cheap if node.incremental is None else node.incremental


def _operator(
    node: Node,
    fused: nodes.Window | nodes.FrameMap | None,
    spaces: KeySpaces,
    clock: str,
    lenient: bool,
    tracked: bool,
) -> Operator[Any]:
    match node:
        case nodes.Source():
            return Ingress(node, spaces, clock, overlap=bool(node.value) and not lenient)
        case nodes.Where():
            return lifetimes.Filter(node)
        case nodes.Select():
            return lifetimes.Project(node)
        case nodes.Lifetime():
            return lifetimes.AlterLifetime(node)
        case nodes.UntilNext():
            return lifetimes.ClipAtNext(node)
        case nodes.Hopping():
            return lifetimes.HoppingLifetime(node)
        case nodes.Sessions():
            return lifetimes.Sessionize(node)
        case nodes.Group():
            return lifetimes.Regroup(node, spaces)
        case nodes.Union():
            return temporal.Merge(node)
        case nodes.Join() | nodes.SignalJoin():
            return temporal.TemporalJoin(node)
        case nodes.Lookup():
            return lifetimes.LookUp(node)
        case nodes.Aggregate():
            return temporal.Snapshots(node)
        case nodes.AsSignal():
            return temporal.SignalCheck(node, str)
        case nodes.MapValues():
            return samples.Apply(node)
        case nodes.Deduplicate():
            return lifetimes.DropDuplicates(node)
        case nodes.Sample():
            return samples.Sampler(node)
        case nodes.ToEvents():
            return samples.Points(node)
        case nodes.ShiftTicks():
            return samples.Shift(node)
        case nodes.Combine():
            return samples.Combiner(node)
        case nodes.Downsample():
            return samples.Decimate(node)
        case nodes.Fir():
            return filters.FirFilter(node)
        case nodes.Rational():
            return filters.RationalFilter(node)
        case nodes.UserFilter():
            return filters.CustomFilter(node)
        case nodes.Window():
            return frames.Windowing(node, *grid(node.input), back=node.hop if tracked else 0)
        case nodes.FrameMap():
            return frames.FrameFunction(node)
        case nodes.FrameUpdate():
            return frames.FrameIncrement(node, node.input.hop)
        case nodes.Spectra():
            if not isinstance(fused, nodes.Window):
                return frames.Spectrum(node)
            return frames.WindowSpectrum(fused, node, *grid(fused.input), sliding=slides(fused, node))
        case nodes.Unwindow():
            return frames.SpectralUnwindowing(node) if fused else frames.Unwindowing(node)
        case nodes.Reduce():
            return frames.Reduction(node)
        case _:
            assert_never(node)


def grid(node: Node) -> tuple[int, int]:
    """Period and offset of the samples that a node yields."""
    match node:
        case nodes.Sample() | nodes.ShiftTicks() | nodes.Combine():
            return node.period, node.offset
        case nodes.Downsample():
            period, offset = grid(node.input)
            return period * node.factor, offset
        case nodes.Source() | nodes.Union() | nodes.Join() | nodes.SignalJoin():
            raise TypeError(f"{type(node).__name__} yields events, not samples")
        case _:
            return grid(node.input)


def has_lifetimes(node: Node) -> bool:
    """Do the events that a node yields carry an end of their own?"""
    match node:
        case nodes.Source():
            return node.end is not None or node.duration != 1
        case nodes.Lifetime():
            return node.duration is not None or node.extend != 0 or has_lifetimes(node.input)
        case nodes.UntilNext() | nodes.Hopping() | nodes.Sessions() | nodes.Aggregate():
            return True
        case nodes.Union():
            return has_lifetimes(node.left) or has_lifetimes(node.right)
        case nodes.Join() | nodes.SignalJoin():
            return has_lifetimes(node.left) and has_lifetimes(node.right)
        case nodes.ToEvents():
            return False
        case _:
            return has_lifetimes(inputs(node)[0])
