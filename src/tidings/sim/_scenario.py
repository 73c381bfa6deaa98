"""Scenarios: a whole run as data, drawn from one number.

A seed decides the network, the routing, the weather, the clients and every step they take: subscriptions that come,
change and go *during* the traffic, publications of every quality, clients that move. Odd seeds break things as well:
links are cut, brokers die; most are mended before the end, some are not. The run is judged by the checker, by the
invariants of the brokers, and, once every client has left, by what they still hold.
"""

from __future__ import annotations

import dataclasses
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidings.aggregation import Aggregation, AggregationOptions, Deployments, Riding
from tidings.aggregation.deploying import Act
from tidings.broker import Feature, RoutingOptions
from tidings.groups import Acknowledged, Choosing, Groups
from tidings.history import HistoryOptions, Strict
from tidings.mobility import Edge, Hosts, MobilityOptions, Neighbourhood, Roaming, Scheme
from tidings.model import Location
from tidings.scopes import Rules, Scopes, shut_down_policies

from ._actions import Action, Verb, take
from ._aggregates import broken_aggregates, kept_aggregates
from ._burst_plan import Flicker, flicker, with_bursts
from ._checker import Checker
from ._choice_plan import ChoicePlan, StatePlan
from ._code_workers import SimWorkers
from ._deploying_plan import NETWORK, DeployingPlan, signer
from ._excuses import Excuse, Excuses
from ._firings import broken_rules
from ._group_plan import GroupPlan
from ._invariants import broken_invariants, overgrown, waste
from ._network import Network
from ._past_plan import with_past
from ._pipes import Weather
from ._place_plan import located, places
from ._plan import RandomPlan
from ._policy_plan import with_policies
from ._promises import Promises
from ._return_plan import ReturnPlan
from ._roaming_plan import paths, roaming, walking
from ._rule_plan import Drawn, RulePlan
from ._scope_plan import NAMES, ScopePlan
from ._session_plan import SessionPlan
from ._topologies import Shape, balanced, line, meshed, random_tree, ring, star
from ._trace import describe
from ._versions import Versions, broken_versions
from ._watch_plan import WatchPlan
from ._work import WorkJudge
from ._work_plan import WorkPlan
from ._workload import random_notification

ALGORITHMS = ("flooding", "simple", "identity", "covering", "merging", "imperfect-merging")
MAX_BROKERS = 12
PATIENCE = 60.0
"""Seconds that subscriptions wait for the past: longer than the slowest links need."""
COMING_TOGETHER = 5.0
"""Seconds for which a network with gateways comes together before anything is published."""
_BREAKING = frozenset({Verb.CUT, Verb.CRASH, Verb.MOVE, Verb.ROAM})
"""Where one of these happens, no edge has a gateway."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A whole run as data, before it happens."""

    seed: int
    shape: Shape
    routing: RoutingOptions
    weather: Weather
    clients: tuple[tuple[str, str], ...]
    """Each client and its broker."""
    steps: tuple[Action, ...]
    mended: bool = True
    """Whether everything that breaks is mended before the end."""
    authority: str = ""
    """The broker that orders changes of the scope graph; empty: there are no scopes."""
    mirrored: bool = False
    """Whether mappings undo what others do."""
    placed: bool = False
    """Whether the places change at which edges of the scope graph are crossed."""
    gateways: bool = False
    """Whether edges of the scope graph may be crossed at designated brokers."""
    history: bool = False
    """Whether brokers remember, and subscriptions reach into the past."""
    returning: bool = False
    """Whether a broker comes back with clients that are full of what they could not publish."""
    roaming: bool = False
    """Whether clients roam from broker to broker."""
    paths: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Where clients go from each broker; empty: anywhere."""
    mobility: MobilityOptions = field(default_factory=MobilityOptions)
    """What brokers do for clients that roam."""
    deciding: bool = False
    """Whether scopes and clients have policies."""
    choosing: bool = False
    """Whether scopes choose one of several members."""
    ruling: bool = False
    """Whether scopes choose several of their members, or by a state."""
    watching: bool = False
    """Whether clients watch aggregates."""
    grouped: bool = False
    """Whether clients join groups."""
    working: bool = False
    """Whether clients join acknowledged groups."""
    sessions: bool = False
    """Whether scopes are session scopes, and clients react to what they get."""
    rules: Mapping[str, Drawn] = field(default_factory=dict)
    """The rules that scopes have at some time, by their texts; empty: none have any."""
    deploying: bool = False
    """Whether clients deploy versions of an aggregate, and watch it by its name."""
    weaving: tuple[tuple[int, str], ...] = ()
    """When brokers begin or cease to advise a step, which disarms and arms their lanes."""
    places: Mapping[str, Location] = field(default_factory=dict)
    """Where brokers stand; empty: nowhere."""

    @property
    def name(self) -> str:
        """The name of this scenario, for `make replay`."""
        kind = ("m" if self.mirrored else "p" if self.placed else "s") if self.authority else "r" * self.returning
        asked = "q" * self.working + "g" * self.grouped + "d" * self.deploying + "a" * self.watching
        located = "l" * bool(self.places)
        moving = "c" * self.sessions + ("v" if self.paths else "w" * self.roaming)
        decided = "t" * self.deciding + "k" * self.ruling + "o" * self.choosing
        before = f"{'b' * self.weather.bursts}{decided}{asked}{'h' * self.history}"
        return f"{'u' * bool(self.rules)}{before}{located}{moving}{kind}{self.seed}"

    @classmethod
    def scoped(
        cls,
        seed: int,
        *,
        faults: bool | None = None,
        routing: RoutingOptions | None = None,
        mirrored: bool = False,
        placed: bool = False,
        moving: str = "",
    ) -> Scenario:
        """Return the scenario of a seed, with scopes that exist from the start and change all the time.

        `moving`: clients roam ("w") or walk ("v").
        """
        flat = cls.random(seed, faults=faults, routing=routing)
        if moving:
            flat = flat.with_roaming() if moving == "w" else flat.with_walking()
        if placed and not seed % 2:  # nobody moves, so that there may be gateways
            steps = tuple(step for step in flat.steps if step.verb is not Verb.MOVE)
            flat = dataclasses.replace(flat, steps=steps)
        rng = random.Random(f"scopes {seed}")
        authority = rng.choice(flat.shape.brokers)
        clients = [client for client, _ in flat.clients]
        broken = any(step.verb in _BREAKING for step in flat.steps)
        plan = ScopePlan(
            rng, flat.shape.brokers, clients, authority, gateways=not broken, mirrored=mirrored, placed=placed
        )
        length = max((step.at for step in flat.steps), default=0)
        together = sorted([*plan.steps(length), *flat.steps], key=lambda step: step.at)
        return dataclasses.replace(
            flat,
            steps=tuple(together),
            authority=authority,
            mirrored=mirrored,
            placed=placed,
            gateways=plan.gateways,
        )

    @classmethod
    def named(cls, name: str) -> Scenario:
        """Return the scenario that a report has named; `ValueError` if a letter needs scopes that there are not."""
        if name.startswith("b"):
            return cls.named(name[1:]).with_bursts()
        if name.startswith("u"):
            return cls.named(name[1:]).with_rules()
        if name.startswith("t"):
            return cls.named(name[1:]).with_policies()
        if name.startswith("o"):
            return cls.named(name[1:]).with_choices()
        if name.startswith("k"):
            return cls.named(name[1:]).with_states()
        if name.startswith("g"):
            return cls.named(name[1:]).with_groups()
        if name.startswith("q"):
            return cls.named(name[1:]).with_work()
        if name.startswith("d"):
            return cls.named(name[1:]).with_deploying()
        if name.startswith("a"):
            return cls.named(name[1:]).with_watching()
        if name.startswith("h"):
            return cls.named(name[1:]).with_past()
        if name.startswith("l"):
            return cls.named(name[1:]).with_places()
        if name.startswith("c"):
            return cls.named(name[1:]).with_sessions()
        if name[:1] in ("w", "v") and name[1:2] in ("s", "m"):
            return cls.scoped(int(name[2:]), mirrored=name[1] == "m", moving=name[0])
        if name[:1] in ("s", "m", "p"):
            return cls.scoped(int(name[1:]), mirrored=name.startswith("m"), placed=name.startswith("p"))
        if name.startswith("r"):
            return cls.of_return(int(name[1:]))
        if name.startswith("w"):
            return cls.named(name[1:]).with_roaming()
        if name.startswith("v"):
            return cls.named(name[1:]).with_walking()
        return cls.random(int(name))

    @classmethod
    def of_return(cls, seed: int) -> Scenario:
        """Return the scenario of a seed with advertisements on: an origin dies, and comes back with its clients."""
        rng = random.Random(f"return {seed}")
        while len((shape := _shape(rng)).borders) < 2:
            pass
        routing = RoutingOptions(rng.choice(ALGORITHMS), advertisements=True)
        clients = tuple((f"c{n}", rng.choice(shape.borders)) for n in range(1, rng.randint(2, 6) + 1))
        steps = ReturnPlan(rng, clients).steps()
        return cls(seed, shape, routing, _weather(rng), clients, tuple(steps), returning=True)

    def with_bursts(self) -> Scenario:
        """Return the same scenario, but with links that carry bytes, and clients that say much at once.

        Lanes are disarmed and armed in mid-stream.
        """
        rng = random.Random(f"bursts {self.seed}")
        steps = with_bursts(rng, self.steps)
        length = max((step.at for step in steps), default=0) + 1
        times = sorted(rng.randrange(length) for _ in range(rng.choice((0, 2, 10))))
        return dataclasses.replace(
            self,
            steps=steps,
            weather=dataclasses.replace(self.weather, bursts=True),
            weaving=tuple((at, rng.choice(self.shape.brokers)) for at in times),
        )

    def with_past(self) -> Scenario:
        """Return the same scenario, but with most subscriptions reaching into the past."""
        steps = with_past(random.Random(f"past {self.seed}"), self.steps)
        return dataclasses.replace(self, steps=steps, history=True)

    def with_policies(self) -> Scenario:
        """Return the same scenario, which must have scopes, but with policies that come and go."""
        self._check_scopes("t")
        rng = random.Random(f"policies {self.seed}")
        clients = [client for client, _ in self.clients]
        steps = with_policies(rng, self.steps, clients, tuple(self.shape.brokers))
        return dataclasses.replace(self, steps=steps, deciding=True)

    def with_choices(self) -> Scenario:
        """Return the same scenario, which must have scopes, but with scopes that choose one of several members."""
        self._check_scopes("o")
        rng = random.Random(f"choices {self.seed}")
        plan = ChoicePlan(rng, [client for client, _ in self.clients], tuple(self.shape.brokers), self.authority)
        return dataclasses.replace(self, steps=plan.applied_to(self.steps), choosing=True)

    def with_states(self) -> Scenario:
        """Return the same scenario, which must have scopes, but with some that choose several, or by a state."""
        self._check_scopes("k")
        rng = random.Random(f"states {self.seed}")
        plan = StatePlan(rng, [client for client, _ in self.clients], tuple(self.shape.brokers), self.authority)
        return dataclasses.replace(self, steps=plan.applied_to(self.steps), ruling=True)

    def with_places(self) -> Scenario:
        """Return the same scenario, but with brokers that stand somewhere, and clients that ask for what is there."""
        rng = random.Random(f"places {self.seed}")
        where = places(rng, tuple(self.shape.brokers))
        return dataclasses.replace(self, steps=located(rng, self.steps), places=where)

    def with_sessions(self) -> Scenario:
        """Return the same scenario, which must have scopes, but with sessions, and clients that react."""
        self._check_scopes("c")
        rng = random.Random(f"sessions {self.seed}")
        plan = SessionPlan(rng, self.shape.brokers, [client for client, _ in self.clients], NAMES)
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), sessions=True)

    def with_rules(self) -> Scenario:
        """Return the same scenario, which must have scopes, but with rules that come and go."""
        self._check_scopes("u")
        plan = RulePlan(random.Random(f"rules {self.seed}"), self.shape.brokers, self.authority)
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), rules=plan.drawn)

    def with_watching(self) -> Scenario:
        """Return the same scenario, but with clients that watch aggregates."""
        rng = random.Random(f"watching {self.seed}")
        scopes = NAMES if self.authority else ()
        advertisements = self.routing.advertisements
        plan = WatchPlan(rng, self.shape, dict(self.clients), advertisements=advertisements, scopes=scopes)
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), watching=True)

    def with_groups(self) -> Scenario:
        """Return the same scenario, but with clients that join groups."""
        plan = GroupPlan(random.Random(f"groups {self.seed}"), [client for client, _ in self.clients])
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), grouped=True)

    def with_work(self) -> Scenario:
        """Return the same scenario, but with clients that join acknowledged groups."""
        rng = random.Random(f"work {self.seed}")
        clients = [client for client, _ in self.clients]
        plan = WorkPlan(rng, self.seed, clients, self.shape.borders, scoped=bool(self.authority))
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), working=True)

    def with_deploying(self) -> Scenario:
        """Return the same scenario, but with clients that deploy, upgrade and end code, and watch it by its name."""
        plan = DeployingPlan(random.Random(f"deploying {self.seed}"), [client for client, _ in self.clients])
        length = max((step.at for step in self.steps), default=0)
        together = sorted([*self.steps, *plan.steps(length)], key=lambda step: step.at)
        return dataclasses.replace(self, steps=tuple(together), deploying=True)

    def with_roaming(self) -> Scenario:
        """Return the same scenario, but with clients that roam from broker to broker."""
        rng = random.Random(f"roaming {self.seed}")
        steps = tuple(step for step in self.steps if step.verb is not Verb.MOVE)
        together = roaming(rng, steps, [client for client, _ in self.clients], tuple(self.shape.borders))
        return dataclasses.replace(self, steps=tuple(together), roaming=True, mobility=_mobility(self.seed))

    def with_walking(self) -> Scenario:
        """Return the same scenario, but with clients that walk along paths, and brokers that know them or learn them.

        Brokers are ready before clients arrive; in three runs of eight they fetch what these missed.
        """
        rng = random.Random(f"walking {self.seed}")
        steps = tuple(step for step in self.steps if step.verb is not Verb.MOVE)
        ways = paths(rng, sorted(self.shape.borders))
        together = tuple(walking(rng, steps, self.clients, ways))
        mobility = MobilityOptions(
            Scheme.REACTIVE if self.seed % 4 == 2 or self.seed % 8 == 7 else Scheme.PROACTIVE,
            roamers=rng.choice((("moved",), ("all",), ("all",))),
            t_timeout=rng.choice((5.0, 120.0, 120.0)),
            buffer_bytes=rng.choice((5_000, 33_554_432, 33_554_432)),
            directed=rng.random() < 0.1,
            max_degree=rng.choice((2, 8, 8)),
            new_edge_interval=0.0,
        )
        warm = _warm(mobility, self.seed)
        return dataclasses.replace(self, steps=together, roaming=True, paths=ways, mobility=warm)

    def _check_scopes(self, letter: str) -> None:
        """Raise `ValueError` if there are no scopes, which what this letter stands for is about."""
        if not self.authority:
            raise ValueError(f"'{letter}' before '{self.name}' needs scopes; let s, m or p stand before the seed")

    @classmethod
    def random(cls, seed: int, *, faults: bool | None = None, routing: RoutingOptions | None = None) -> Scenario:
        """Return the scenario of a seed, without scopes."""
        rng = random.Random(seed)
        faults = seed % 2 == 1 if faults is None else faults
        shape = _shape(rng)
        drawn = RoutingOptions(rng.choice(ALGORITHMS), rng.random() < 0.4)
        routing = routing or drawn
        weather = _weather(rng)
        clients = tuple((f"c{n}", rng.choice(shape.borders)) for n in range(1, rng.randint(2, 8) + 1))
        plan = RandomPlan(rng, shape, [name for name, _ in clients], routing.advertisements)
        steps = plan.steps(rng.randint(30, 140), faults=faults)
        return cls(seed, shape, routing, weather, clients, tuple(steps), plan.mended)

    def build(self) -> Network:
        """Return the network, with every client attached and every step scheduled."""
        network = Network(
            self.seed,
            routing=self.routing,
            weather=self.weather,
            features=lambda name: self._features(lambda: network, name),
        )
        if self.mobility.scheme is not Scheme.ORIGINS:  # copies are ready only if it is noticed that somebody is gone
            choices = (0.05, 1.0) if self.paths else (0.05, 1.0, 5.0)
            network.noticed_within = random.Random(f"noticed {self.seed}").choice(choices)
        for broker in self.shape.brokers:
            network.add_broker(broker, self.shape.role(broker), self.places.get(broker))
        for one, two in self.shape.links:
            network.connect(one, two)
        for client, broker in self.clients:
            network.add_client(client, broker)
        if self.gateways:
            network.run(COMING_TOGETHER)  # nothing is promised for what crosses at a gateway that is not there yet
        for step in self.steps:
            network.scheduler.after(step.at, lambda step=step: take(network, step))  # type: ignore[misc]
        for at, broker in self.weaving:
            network.scheduler.after(at, lambda broker=broker: flicker(network, broker))  # type: ignore[misc]
        return network

    def _features(self, network: Callable[[], Network], broker: str) -> Iterator[Feature]:
        if self.weaving:
            yield Flicker()
        if self.authority:
            scopes = Scopes(self.authority)
            yield scopes
            if self.rules:
                yield Rules(scopes)
        hosts = Hosts()
        if self.roaming:
            yield hosts
            if self.mobility.scheme is not Scheme.ORIGINS:
                neighbourhood = Neighbourhood(hosts, self.mobility.graph, self._edges())
                yield neighbourhood
                yield Roaming(self.mobility, hosts, neighbourhood)
        if self.history:
            yield Strict(HistoryOptions(timer=PATIENCE))
        if self.grouped or self.working:
            plain = Groups()
            yield plain
            if self.working:
                yield Acknowledged(plain)
        if self.choosing or self.ruling:
            yield Choosing()
        if self.deploying:
            options = AggregationOptions(ride_on=self._riding, network=NETWORK, signer=(signer(),))
            deployments = Deployments(options, SimWorkers(network, broker))
            yield deployments
        if self.watching or self.deploying:
            aggregation = (
                Aggregation(options, deployments)
                if self.deploying
                else Aggregation(AggregationOptions(ride_on=self._riding))
            )
            aggregation.serve(hosts)
            yield aggregation

    @property
    def _is_calm(self) -> bool:
        """Whether nothing fails, nobody roams, and no version is ended or has two sources."""
        quiet = {Verb.SUBSCRIBE, Verb.UNSUBSCRIBE, Verb.ADVERTISE, Verb.UNADVERTISE, Verb.PUBLISH, Verb.WATCH}
        deployed = [step.statement.manifest for step in self.steps if step.statement is not None]
        return (
            all(step.verb in quiet | {Verb.TUNE, Verb.UNWATCH, Verb.DEPLOY} for step in self.steps)
            and all(one.act is Act.INSTALL for one in deployed)
            and len({one.version for one in deployed}) == len(deployed)
        )

    def _edges(self) -> list[Edge]:
        """The neighbour graph that brokers begin with: all of it, the paths of those who walk, or nothing."""
        if self.paths and self.seed % 2:
            pairs = [(one, two) for one, others in self.paths.items() for two in others]
            return [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in pairs if one < two or self.mobility.directed]
        borders = sorted(self.shape.borders) if self.seed % 2 else []
        both = self.mobility.directed
        pairs = [(one, two) for one in borders for two in borders if one < two or (both and one > two)]
        return [Edge(one, two, 1.0, 0, 0, pinned=True) for one, two in pairs]

    @property
    def _riding(self) -> Riding:
        """On what updates ride: on everything, as by default, or by one of the other levels."""
        levels: list[Riding] = [*Riding, Riding.EVERYTHING]
        return random.Random(f"riding {self.seed}").choice(levels)

    def run(self, promises: Promises | None = None) -> Result:
        """Run the scenario, and judge what happened."""
        shut_down_policies()  # what they keep lives as long as the process, and a run is a process of its own
        network = self.build()
        result = Result(self, network)
        try:
            self._judge(result, promises)
        except Exception:  # whatever a broker raises is found out by its seed
            result.violations.append(traceback.format_exc())
        return result

    def _judge(self, result: Result, promises: Promises | None) -> None:
        network, violations = result.network, result.violations
        versions = Versions(network, calm=self._is_calm) if self.deploying else None
        network.run()
        checker = Checker(promises, advertisements=self.routing.advertisements)
        for record in network.trace.records:
            checker.step(record)
        result.excuses, result.work = checker.excuses, checker.work
        violations += map(str, checker.violations)
        rng = random.Random(self.seed)
        samples = [random_notification(rng) for _ in range(20)]
        broken = [*broken_invariants(network, samples, result.excuses), *overgrown(network)]
        if self.mended or not self.authority:
            violations += broken
        else:
            result.excuses.grant(Excuse.UNMENDED_SCOPES, broken)
        if self.watching:
            violations += broken_aggregates(network, promises)
        if self.rules:
            violations += broken_rules(network, self.authority, self.rules, promises)
        if versions is not None:
            violations += broken_versions(network, versions, promises)
        for client in network.clients.values():
            client.detach()
        network.run()
        violations += waste(network)
        if self.watching or self.deploying:
            violations += kept_aggregates(network)


@dataclass(slots=True)
class Result:
    """The outcome of a run: the network, and every broken promise."""

    scenario: Scenario
    network: Network
    violations: list[str] = field(default_factory=list)
    excuses: Excuses = field(default_factory=Excuses)
    """What was let pass, and why."""
    work: WorkJudge | None = None
    """What it saw of acknowledged groups."""

    def report(self) -> str:
        """Return the broken promises, and the one command that reproduces them."""
        scenario = self.scenario
        lines = [
            f"seed {scenario.name}: {len(self.violations)} violations "
            f"({scenario.routing.algorithm}{' with advertisements' if scenario.routing.advertisements else ''}, "
            f"{len(scenario.shape.brokers)} brokers, {len(scenario.clients)} clients)",
            f"excused: {self.excuses or 'nothing'}",
            *([f"time that work takes: {scenario.weather.service}"] if scenario.weather.service is not None else []),
            *self.violations[:20],
            f"reproduce with: make replay SEED={scenario.name}",
        ]
        return "\n".join(lines)

    def transcript(self) -> str:
        """Return the whole trace in readable form."""
        links = " ".join(f"{one}-{two}" for one, two in self.scenario.shape.links)
        return "\n".join([f"links: {links}", *map(describe, self.network.trace.records)])


def _mobility(seed: int) -> MobilityOptions:
    """Return what brokers do for clients that roam: in three runs of five, they are ready before these arrive."""
    return MobilityOptions() if seed % 5 in (1, 3) else _warm(_ready(seed), seed)


def _warm(options: MobilityOptions, seed: int) -> MobilityOptions:
    """Return the same settings; in half of all runs, copies listen before their clients go."""
    rng = random.Random(f"warm {seed}")
    if options.scheme is not Scheme.PROACTIVE or rng.random() < 0.5:
        return options
    return dataclasses.replace(
        options,
        warm_copies=rng.choice((1, 2, 8)),
        warm_from=rng.choice((0.0, 0.0, 0.5)),
        warm_window=rng.choice((1.0, 5.0, 60.0)),
        max_warm_copies=rng.choice((1, 1_000, 1_000)),
        warm_buffer_bytes=rng.choice((500, 5_000, 16_777_216)),
    )


def _ready(seed: int) -> MobilityOptions:
    """Return settings of brokers that are ready before clients arrive."""
    rng = random.Random(f"mobility {seed}")
    timeout = rng.choice((2.0, 20.0, 120.0))
    return MobilityOptions(
        Scheme.PROACTIVE,
        roamers=rng.choice((("moved",), ("all",))),
        t_timeout=timeout,
        dummy_self_expiry=2 * timeout,
        buffer_bytes=rng.choice((500, 5_000, 33_554_432)),
        directed=rng.random() < 0.2,
        edge_timeout=rng.choice((5.0, 600.0)),
        max_degree=rng.choice((1, 2, 8)),
        new_edge_interval=0.0,
    )


def _shape(rng: random.Random) -> Shape:
    count = rng.randint(1, MAX_BROKERS)
    shape = rng.choice(
        (
            lambda: line(count),
            lambda: star(count),
            lambda: random_tree(count, rng),
            lambda: random_tree(count, rng),
            lambda: balanced(rng.randint(1, 3), rng.randint(2, 3)),
            lambda: ring(count),
            lambda: meshed(count, rng.randint(1, 4), rng),
        )
    )()
    shape = shape if len(shape.brokers) <= MAX_BROKERS else random_tree(MAX_BROKERS, rng)
    inner = frozenset(broker for broker in shape.brokers[1:] if rng.random() < 0.2)
    return Shape(shape.brokers, shape.links, inner=inner)


def _weather(rng: random.Random) -> Weather:
    return Weather(
        latency=rng.choice(((500, 5_000), (500, 5_000), (0, 0), (1_000, 200_000), (20_000, 20_000))),
        bandwidth=rng.choice((None, None, None, 20_000)),
        sync_time=rng.choice((0, 2_000, 100_000)),
        through_wire=rng.random() < 0.25,
    )
