"""Whether a definition obeys the laws that the engine relies on; if not, the smallest case that shows it.

Theory of operation
-------------------
Three groups of records are drawn; each is folded into a partial; each law is asked about the three. The first law
that fails is asked again about fewer records, and about simpler values, as long as it still fails: what is left is
shown. All of it ends after two seconds of a clock that is handed in. Then many records are combined one after the
other, to see how large a partial becomes, and how long a record takes.

A definition that says `approximate` is held to `agrees`, not to equal bytes.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tidings.aggregation.definitions import Aggregate, RunOnce
from tidings.model import LawBroken, TidingsError, shortened

from ._generator import Case, Generator

SECONDS = 2.0
"""How long a check takes at most, in seconds."""
ROUNDS = 400
"""How many groups of three are drawn at most."""
COMBINED = 10_000
"""How many records are combined to see how large a partial becomes."""
MAX_STEP = 0.001
"""The most seconds that lifting and combining one record may take, on average."""

_Three = tuple[tuple[Case, ...], tuple[Case, ...], tuple[Case, ...]]


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check has found out about a definition that obeys the laws."""

    rounds: int
    """How many groups of records were tried."""
    lifted: int
    """How many records were relevant."""
    bytes: int
    """The largest partial, encoded."""
    step: float
    """Seconds that one record takes."""


class _Broken(NamedTuple):
    law: str
    said: str


class _Stopwatch(NamedTuple):
    clock: Callable[[], float]
    deadline: float


def check(
    aggregate: Aggregate[Any] | RunOnce,
    *,
    seed: int = 0,
    seconds: float = SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> Checked:
    """Test the laws, or raise `LawBroken`, which shows the smallest case that was found.

    >>> from tidings.aggregation.definitions import Count
    >>> check(Count(), seconds=0.2).bytes > 0
    True
    """
    if isinstance(aggregate, RunOnce):
        return Checked(0, 0, len(_once(aggregate)), 0.0)
    watch = _Stopwatch(clock, clock() + seconds)
    generator = Generator(aggregate, seed)
    rounds = drawn = 0
    while rounds < ROUNDS and (clock() < watch.deadline - seconds / 2 or not rounds):
        three = _three(generator, rounds)
        rounds += 1
        drawn += sum(map(len, three))
        if (broken := _broken(aggregate, three)) is not None:
            raise _shown(aggregate, *_smallest(aggregate, three, broken, generator, watch))
    lifted, largest, step = _endurance(aggregate, generator, drawn, watch)
    return Checked(rounds, lifted, largest, step)


def fingerprint(aggregate: Aggregate[Any], seed: int = 0, cases: int = 100) -> str:
    """A digest of what the definition makes of some records: the same in every process if it is deterministic."""
    generator, digest = Generator(aggregate, seed), hashlib.sha256()
    partial = aggregate.zero()
    for _ in range(cases):
        record = generator.case().record()
        if (lifted := aggregate.lift(record)) is not None:
            digest.update(repr(aggregate.key(record)).encode())
            partial = aggregate.combine(partial, lifted)
            digest.update(aggregate.encode(partial))
    digest.update(repr(aggregate.present(partial)).encode())
    return digest.hexdigest()


def _once(aggregate: RunOnce) -> bytes:
    try:
        return aggregate.encode(aggregate.run("b1"))
    except Exception as error:
        raise LawBroken(f"{aggregate.name}: run raised {_words(error)}") from error


def _three(generator: Generator, rounds: int) -> _Three:
    """Three groups; the first are small, so that a case that fails is small from the start."""
    size = 1 + rounds % 4
    a, b, c = (tuple(generator.case() for _ in range(size)) for _ in range(3))
    return a, b, c


def _broken(aggregate: Aggregate[Any], three: _Three) -> _Broken | None:
    """The first law that these groups break."""
    step = "lift"
    try:
        a, b, c = (_folded(aggregate, group) for group in three)
        step = "a law"
        for law, holds in _laws(aggregate, a, b, c):
            step = law
            if said := holds():
                return _Broken(law, said)
    except Exception as error:
        return _Broken(step, f"raised {_words(error)}")
    return None


def _folded(aggregate: Aggregate[Any], group: Sequence[Case]) -> Any:
    partial = aggregate.zero()
    for case in group:
        record = case.record()
        lifted = aggregate.lift(record)
        if lifted is not None:
            if not isinstance(aggregate.key(record), str):
                raise TypeError(f"key gave {aggregate.key(record)!r:.40} for {case}; a key is a text")
            partial = aggregate.combine(partial, lifted)
    return partial


def _laws(aggregate: Aggregate[Any], a: Any, b: Any, c: Any) -> Iterator[tuple[str, Callable[[], str]]]:
    plus, d = aggregate.combine, aggregate.distance
    shown = _partial
    yield (
        "combine does not change what it is given",
        lambda: _unchanged(aggregate, a, b),
    )
    yield (
        "zero adds nothing: combine(zero(), a) = a",
        lambda: _equal(aggregate, plus(aggregate.zero(), a), a),
    )
    yield (
        "order does not matter: combine(a, b) = combine(b, a)",
        lambda: _equal(aggregate, plus(a, b), plus(b, a)),
    )
    yield (
        "grouping does not matter: combine(combine(a, b), c) = combine(a, combine(b, c))",
        lambda: _equal(aggregate, plus(plus(a, b), c), plus(a, plus(b, c))),
    )
    yield (
        "encoding loses nothing: decode(encode(a)) = a, byte for byte",
        lambda: _lossless(aggregate, a),
    )
    if aggregate.invertible:
        yield (
            "the inverse takes away: combine(a, invert(a)) = zero()",
            lambda: _equal(aggregate, plus(a, aggregate.invert(a)), aggregate.zero()),
        )
    yield (
        "the distance is 0 for equal partials only",
        lambda: "" if (d(a, b) == 0) == (a == b) else f"distance({shown(a)}, {shown(b)}) = {d(a, b)!r:.40}",
    )
    yield (
        "the distance is not negative, and the same in both directions",
        lambda: "" if d(a, b) == d(b, a) >= 0 else f"{d(a, b)!r:.40} and {d(b, a)!r:.40}",
    )
    yield (
        "a detour is not shorter: distance(a, c) <= distance(a, b) + distance(b, c)",
        lambda: "" if _detour(d(a, c), d(a, b), d(b, c)) else f"{d(a, c)!r:.40} > {d(a, b)!r:.40} + {d(b, c)!r:.40}",
    )
    yield ("present and error take every partial", lambda: _presented(aggregate, a))


def _detour(direct: float, first: float, second: float) -> bool:
    return direct <= (float(first) + float(second)) * (1 + 1e-9)


def _equal(aggregate: Aggregate[Any], left: Any, right: Any) -> str:
    if aggregate.approximate:
        return "" if aggregate.agrees(left, right) else f"{_partial(left)} and {_partial(right)} do not agree"
    if left != right:
        return f"{_partial(left)} is not {_partial(right)}"
    return ""


def _unchanged(aggregate: Aggregate[Any], a: Any, b: Any) -> str:
    before = repr(a), repr(b)
    aggregate.combine(a, b)
    return "" if before == (repr(a), repr(b)) else f"{before[0]:.60} became {_partial(a)}"


def _lossless(aggregate: Aggregate[Any], a: Any) -> str:
    data = aggregate.encode(a)
    if type(data) is not bytes:
        return f"encode gave {type(data).__name__}, not bytes"
    again = aggregate.decode(data)
    if again != a:
        return f"{_partial(a)} came back as {_partial(again)}"
    return "" if aggregate.encode(again) == data else f"{_partial(a)} has two encodings"


def _presented(aggregate: Aggregate[Any], a: Any) -> str:
    aggregate.present(a)
    error = aggregate.error(a)
    return "" if error >= 0 and not math.isnan(error) else f"error({_partial(a)}) = {error!r:.40}"


def _smallest(
    aggregate: Aggregate[Any],
    three: _Three,
    broken: _Broken,
    generator: Generator,
    watch: _Stopwatch,
) -> tuple[_Three, _Broken]:
    """Fewer records and simpler values that break the same law."""
    simpler = True
    while simpler:
        simpler = False
        for candidate in _simpler(three, generator):
            if watch.clock() > watch.deadline:
                return three, broken
            found = _broken(aggregate, candidate)
            if found is not None and found.law == broken.law:
                three, broken, simpler = candidate, found, True
                break
    return three, broken


def _simpler(three: _Three, generator: Generator) -> Iterator[_Three]:
    for at, group in enumerate(three):
        if group:
            yield _with(three, at, ())
        for place in range(len(group)):
            yield _with(three, at, group[:place] + group[place + 1 :])
    for at, group in enumerate(three):
        for place, case in enumerate(group):
            for smaller in _simpler_cases(case, generator):
                yield _with(three, at, (*group[:place], smaller, *group[place + 1 :]))


def _with(three: _Three, at: int, group: tuple[Case, ...]) -> _Three:
    a, b, c = (group if place == at else other for place, other in enumerate(three))
    return a, b, c


def _simpler_cases(case: Case, generator: Generator) -> Iterator[Case]:
    attrs = case.attrs
    for at in range(len(attrs)):
        yield replace(case, attrs=attrs[:at] + attrs[at + 1 :])
    for at, (name, value) in enumerate(attrs):
        for simple in generator.values:
            if simple is value or (type(simple) is type(value) and simple == value):
                break
            yield replace(case, attrs=(*attrs[:at], (name, simple), *attrs[at + 1 :]))


def _shown(aggregate: Aggregate[Any], three: _Three, broken: _Broken) -> LawBroken:
    lines = [f"{aggregate.name} {aggregate.version} breaks a law: {broken.law}", f"  {broken.said}"]
    for name, group in zip("abc", three, strict=True):
        lines.append(f"  {name} = {', '.join(map(str, group)) or 'nothing'}")
    return LawBroken("\n".join(lines))


def _endurance(
    aggregate: Aggregate[Any],
    generator: Generator,
    drawn: int,
    watch: _Stopwatch,
) -> tuple[int, int, float]:
    """Many records, one after the other: how many were lifted, the largest partial, and how long one takes."""
    clock, deadline = watch
    lifted = largest = 0
    partial = aggregate.zero()
    spent, steps = 0.0, 0
    try:
        while steps < COMBINED and (clock() < deadline or not steps):
            records = [generator.case().record() for _ in range(100)]
            begun = clock()
            for record in records:
                if (one := aggregate.lift(record)) is not None:
                    lifted += 1
                    partial = aggregate.combine(partial, one)
            spent += clock() - begun
            steps += len(records)
            largest = max(largest, len(aggregate.bounded(aggregate.encode(partial))))
    except Exception as error:
        raise LawBroken(f"{aggregate.name}: after {lifted:,} records it raised {_words(error)}") from error
    if not lifted:
        raise LawBroken(
            f"{aggregate.name}: lift took none of {drawn + steps:,} records, so its laws cannot be tested; "
            "give the class examples = ({'attribute': value, ...},) that it takes"
        )
    if spent / steps > MAX_STEP:
        raise LawBroken(
            f"{aggregate.name}: a record takes {spent / steps * 1_000:.1f} ms, at most {MAX_STEP * 1_000:g} ms "
            f"are allowed"
        )
    return lifted, largest, spent / steps


def _partial(value: Any) -> str:
    return shortened(repr(value), 80)


def _words(error: BaseException) -> str:
    return shortened(str(error) if isinstance(error, TidingsError) else f"{type(error).__name__}: {error}", 200)
