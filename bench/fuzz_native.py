"""Odd bodies, odd frames and changing filters for an engine that was built with sanitizers: `make fuzz-native`.

A sanitizer ends the process at the first byte that is read where it must not be. Whatever is found goes into
`CORPUS` as a body in hexadecimal digits, and is tried first from then on.
"""

from __future__ import annotations

import importlib
import importlib.util
import random
import sys
import time
from pathlib import Path

from tidings import _native
from tidings.matching import Checks, CompiledIndex, Fed, Group, PassedOn, Plan
from tidings.matching._atom import atom_of
from tidings.model import ROOT_ROUTE, Filter, Identity, Matches, Notification, Route, has_plain_kinds
from tidings.wire import (
    Deliver,
    Envelope,
    Frame,
    Hop,
    Notify,
    Part,
    Publish,
    Quality,
    Run,
    Written,
    decode_body,
    encode,
    encode_body,
    pack,
    part,
)

CORPUS = [
    "81a161c70201fffe",  # a location that is no UTF-8
    "82a161cb7ff0000000000000a16101",
    "dfffffffff",
    "81a161dbffffffff",
    "81a161c9ffffffff01",
    "81a161d8ff00000000000000000000000000000000",
    "81a161dd00000400",
]


def load(folder: str) -> None:
    """Use the engine of this folder instead of the one in the package."""
    (path,) = Path(folder).glob("_engine*")
    spec = importlib.util.spec_from_file_location("tidings._native._engine", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[spec.name] = module
    vars(_native).pop("_engine", None)
    importlib.reload(_native)
    assert _native.engine is module


def is_known(filter: Filter | Matches) -> bool:
    """Whether the engine can do without Python."""
    if type(filter) is not Filter:
        return False
    return all(atom_of(one).op != "ask" for conjunction in filter.conjunctions for one in conjunction)


READS = [
    "0000000000",
    "ffffffff00",
    "0000000192",
    "0000000c009295a75075626c697368cf",
    "00000011009295a75075626c69736801c6ffffffff",
    "00000018009295a75075626c69736801c4018003c09300c0c0",
    "00000018009295a75075626c69736801c4018004c09300c0c0",
    "00000019009297a75075626c69736801c4018003c090c09300c0",
    "00000013009297a75075626c69736801c4018003c0",
]
"""Parts that ended too early once, or might."""


SCOPED = (pack((Route("s"),))[:5], pack(("s",)) + b"\x00\x90")
"""What is before and after the name of a publisher in the route of a scope."""


class Link:
    """Somebody at the other end."""


class Feeder:
    """Feeds a plane with reads that were bent, while its plans come and go."""

    def __init__(self, index: CompiledIndex[int], rng: random.Random) -> None:
        assert index.plane is not None
        self._plane = index.plane
        self._rng = rng
        self._links = [Link() for _ in range(8)]
        guard: CompiledIndex[int] = CompiledIndex()
        guard.add(Filter.parse("NOT (a = 1) OR b EXISTS"), 0)
        assert guard.plane is not None
        others: CompiledIndex[int] = CompiledIndex()
        others.add(Filter.parse("b = 2 OR a > 7 OR a = 'x'"), 0)
        some = (guard.plane,)
        self._checks: list[Checks | None] = [
            None,
            None,
            (some, None, None, None),
            ((), guard.plane, None, True),
            ((), None, others.plane, guard.plane),
            (some * 2, guard.plane, others.plane, others.plane),
        ]
        self._version = 0
        self.fed = 0
        self._arm()

    def _arm(self) -> None:
        """With scopes, or without."""
        before, after = self._rng.choice([(b"", b""), SCOPED])
        passing = self._rng.choice([b"", pack((ROOT_ROUTE,))])
        self._plane.arm(b"\x94\x98\xa1b\x01", b"\x00", pack((ROOT_ROUTE,)), passing, before, after)

    def _plan(self, matching: list[int], source: Link) -> Plan | None:
        rng = self._rng
        if rng.random() < 0.1:
            return None
        if rng.random() < 0.05:
            raise ValueError("nobody knows")
        return matching, rng.random() < 0.2, self._groups(matching), rng.random() < 0.2

    def _groups(self, matching: list[int]) -> list[Group]:
        rng = self._rng
        left = rng.sample(self._links, rng.randrange(len(self._links)))
        groups: list[Group] = []
        while left:
            some = [left.pop() for _ in range(rng.randint(1, len(left)))]
            ids = tuple(map(str, matching[:5]))
            closing = pack(ids) + pack(Hop())
            routes = rng.choice([None, pack((ROOT_ROUTE,)), pack((Route("elsewhere"), ROOT_ROUTE))])
            groups.append((dict.fromkeys(some, None), b"\x92\x93\xa7Deliver", closing, rng.random() < 0.5, routes))
        return groups

    def _special(self, matching: list[int]) -> list[Group] | bool | None:
        """Whether somebody stands apart now."""
        chance = self._rng.random()
        return None if chance < 0.7 else self._groups(matching) if chance < 0.9 else False

    def feed(self, bodies: list[bytes]) -> None:
        """One read."""
        rng = self._rng
        seq = rng.choice([1, 120, 2**32 - 2, 2**63 - 3])
        read = bytearray()
        quality = Quality(rng.randrange(4))
        for body in bodies:
            ttl = rng.choice([None, None, None, 7, 2**63 - 1])
            cause = rng.choice([(), (), (), ("s",)])
            read += part(Part.DATA, encode(Frame(Publish(seq, body, quality, ttl, cause))))
            seq += 1
        for _ in range(rng.choice([0, 0, 1, 3])):
            read[rng.randrange(len(read))] = rng.randrange(256)
        data = bytes(read[: rng.choice([len(read), rng.randrange(len(read) + 1)])])
        self.give(data)
        self._bring(bodies)

    def _bring(self, bodies: list[bytes]) -> None:
        """One read from a neighbour."""
        rng = self._rng
        read = bytearray()
        name = rng.choice(["o", "o" * 31, "o" * 32, "ö" * 100, "o" * 300])
        for n, body in enumerate(bodies):
            seq = rng.choice([n, n + 120, n + 2**32 - 2, n + 2**62])
            identity = Identity(name, 1, seq, "p", seq, seq, 0, rng.choice([None, None, 7, 2**62]))
            route = rng.choice([ROOT_ROUTE, ROOT_ROUTE, Route("s", source="p" * rng.choice([1, 40]), path=("s",))])
            read += part(Part.DATA, encode(Frame(Notify(Envelope(identity, (route,), body)), Hop(7))))
        for _ in range(rng.choice([0, 0, 1, 3])):
            read[rng.randrange(len(read))] = rng.randrange(256)
        data = bytes(read[: rng.choice([len(read), rng.randrange(len(read) + 1)])])
        self.pass_on(data)

    def pass_on(self, data: bytes) -> None:
        """These bytes of a neighbour, until the plane takes no more of them."""
        rng = self._rng
        at = 0
        for _ in range(4):
            special = rng.choice([None, self._special])
            try:
                found = self._plane.pass_on(
                    data, at, self._links[0], 500, self._version, self._plan, special, pack(Hop(7))
                )  # fmt: skip
            except ValueError:
                continue
            if found is None:
                return
            passed = PassedOn(*found)
            for _, frames, length, largest, numbers in passed.written:
                assert len(Written(frames, length, largest).parts()) == length == len(numbers) // 8
            self.fed += passed.taken
            at = passed.upto

    def give(self, data: bytes) -> None:
        """These bytes, until the plane takes no more of them."""
        rng = self._rng
        self._plane.is_sound(data, 2**20)
        if rng.random() < 0.2:
            self._version += 1
        if rng.random() < 0.1:
            self._arm()
        at = 0
        for _ in range(4):
            special = rng.choice([None, self._special])
            last, checks = rng.choice([0, 2**63 - 3]), rng.choice(self._checks)
            try:
                found = self._plane.feed(
                    data, at, self._links[0], 500, self._version, self._plan, special,
                    b"\xa1p", last, 0, 2**50, b"\0\1\2\2", checks,
                )  # fmt: skip
            except ValueError:
                continue
            if found is None:
                return
            self._check(Fed(*found))
            at = found[0]

    def _check(self, fed: Fed) -> None:
        """What it gives can be read."""
        first = Identity("b", 1, 1, "p", fed.seq - fed.taken + 1, 2**50)
        run = Run(first, Quality(fed.quality), fed.envelopes, fed.places, fed.size)
        assert [one.body for one in run.envelopes()] == run.bodies()
        assert len(run.some(fed.watched)) == len(fed.watched)
        for _, frames, length, largest, numbers in fed.written:
            assert len(Written(frames, length, largest).frames()) == length == len(numbers) // 8
        self.fed += fed.taken


DELIVERIES = [
    "0000000f009293a744656c697665729498a1",
    "00000012009293a744656c697665729498a16201cf",
    "0000001a009293a744656c697665729498a162010101a17001010000c0",
    "00000020009293a744656c697665729498a162010101a17001010000c0ddffffffff90",
    "00000020009293a744656c697665729498a162010101a17001010000c090c6ffffffff",
    "0000002b009293a744656c697665729498a162010101a17001010000c090c406" + "81a161c70201" + "0191a17393",
]
"""Deliveries that end too early."""


class Late(Notification):
    """What the receiver makes."""

    __slots__ = ("_body", "_looks")


class Client:
    """Takes what a broker sends, after it was bent, and looks at what it has."""

    def __init__(self, rng: random.Random) -> None:
        assert _native.engine is not None
        self._receiver = _native.engine.Receiver(Late, lambda body: decode_body(body).attributes)
        self._rng = rng
        self.taken = 0

    def take(self, data: bytes) -> None:
        """One read, from some places."""
        rng = self._rng
        self._receiver.is_sound(data, 2**20)
        at = 0
        for _ in range(5):
            found = self._receiver.take(data, at, rng.choice([1, 3, 500]))
            if found is None:
                at = rng.randrange(len(data) + 1)
                continue
            self.taken += len(found[9])
            assert len(found[8]) == len(found[9])
            for one in found[9]:
                self._look(one)
            at = found[0]

    def _look(self, one: Notification) -> None:
        for _ in range(self._rng.randrange(6)):
            name = self._rng.choice(["a", "b", "c", "d", "", "ö", "\ud800"])
            looked, known = one.get(name), one.attributes.get(name) if self._rng.random() < 0.3 else None
            assert known is None or looked == known

    def read(self, bodies: list[bytes]) -> None:
        """Deliveries of these."""
        rng = self._rng
        read = bytearray()
        origin, publisher = (rng.choice(["b", "b" * 31, "b" * 32, "ö" * 100]) for _ in range(2))
        route = rng.choice([(ROOT_ROUTE,), (), (Route("s", path=("s", "t"), tags=("x",)), ROOT_ROUTE)])
        ids = rng.choice([("s1",), (), ("s1", "s" * 300)])
        for n, body in enumerate(bodies):
            seq = n + rng.choice([1, 120, 2**32 - 2, 2**62])
            identity = Identity(origin, 1, seq, publisher, seq, seq, 0, rng.choice([None, None, 7, 2**62]))
            read += part(Part.DATA, encode(Frame(Deliver(Envelope(identity, route, body), ids))))
        for _ in range(rng.choice([0, 0, 1, 3])):
            read[rng.randrange(len(read))] = rng.randrange(256)
        self.take(bytes(read[: rng.choice([len(read), rng.randrange(len(read) + 1)])]))


class Archivist:
    """Batches of a log, most of them broken, become columns."""

    def __init__(self, rng: random.Random) -> None:
        assert _native.engine is not None
        self._rng = rng
        wanted = (("a", rng.randrange(7)), ("b", rng.randrange(7)))
        self._columns = _native.engine.Columns("b", wanted[: rng.randrange(3)], rng.random() < 0.5)
        self._rows = 0
        self.taken = 0

    def add(self, bodies: list[bytes]) -> None:
        """These bodies in a batch, of which some bytes are changed or missing."""
        rng = self._rng
        envelopes = [
            Envelope(Identity("b", 1, seq, "p", seq, 2**50), (rng.choice([ROOT_ROUTE, Route("m", tags=("t",))]),), body)
            for seq, body in enumerate(bodies, 1)
        ]
        data = bytearray(pack(envelopes))
        for _ in range(rng.choice([0, 0, 1, 3])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        added = self._columns.add(bytes(data[: rng.choice([len(data), len(data), rng.randrange(len(data))])]))
        if added is not None:
            self._rows += added[0]
            self.taken += added[0]
        if rng.random() < 0.1:
            rows, _, _ = self._columns.take()
            assert rows == self._rows
            self._rows = 0


def fuzz(seconds: float) -> None:
    """Add, remove and match, until the time is used up."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    world = importlib.import_module("matching_world")
    assert _native.engine is not None, _native.WHY_PURE
    deadline = time.monotonic() + seconds
    seed = time.time_ns()
    bodies = taken = fed = received = archived = 0
    while time.monotonic() < deadline:
        rng = random.Random(seed)
        index: CompiledIndex[int] = CompiledIndex()
        assert index.match_body is not None
        feeder, archivist = Feeder(index, rng), Archivist(rng)
        for read in map(bytes.fromhex, READS):
            feeder.give(read)
        client = Client(rng)
        for read in map(bytes.fromhex, DELIVERIES):
            client.take(read)
        for known in map(bytes.fromhex, CORPUS):
            index.match_body(known)
        for key in range(300):
            filter = world.random_filter(rng)
            while seed % 4 and not is_known(filter):  # whatever must be asked hands every body to Python
                filter = world.random_filter(rng)
            index.add(filter, key)
            if key % 3 == 2:
                index.remove(rng.choice([key, key - 1]))
            whole = world.random_notification(rng, lists=0.4)
            index.match(whole)
            names = sorted(whole)
            plain = _native.engine.plain_kinds(dict(whole), set(names[rng.randrange(2) :]))
            assert not plain or has_plain_kinds(dict(whole))
            for _ in range(10):
                body: bytearray = bytearray(encode_body(whole))
                for _ in range(rng.randrange(5)):
                    body[rng.randrange(len(body))] = rng.randrange(256)
                bodies += 1
                taken += (
                    index.match_body(bytes(body[: rng.choice([len(body), rng.randrange(len(body) + 1)])])) is not None
                )
            client.read([encode_body(world.random_notification(rng, lists=0.3)) for _ in range(rng.randint(1, 9))])
            some = [encode_body(world.random_notification(rng, lists=0.4)) for _ in range(rng.randint(1, 9))]
            feeder.feed(some)
            archivist.add(some)
        fed += feeder.fed
        received += client.taken
        archived += archivist.taken
        seed += 1
    print(f"{bodies:,} bodies, of which {taken:,} were taken; {fed:,} publications fed, {archived:,} archived,")
    print(f"{received:,} deliveries received. No sanitizer spoke.")


if __name__ == "__main__":
    load(sys.argv[1])
    fuzz(float(sys.argv[2]))
