"""A client and a scope are the same to whoever puts them together; and brokers can be given ways to be managed."""

from __future__ import annotations

import json

import pytest
from scopes.network_world import Watched

from tidings.broker import Broker, Feature, Link, RoutingOptions
from tidings.model import AmbiguousName, Notification, ScopeError
from tidings.scopes import (
    OPEN,
    AnyChange,
    CreateScope,
    Graph,
    Impose,
    Interface,
    Join,
    Leave,
    SetMapping,
    SetSelective,
    apply,
    edge_mapping,
    mapping,
    resolve,
)
from tidings.scopes.steps import Convert
from tidings.wire import Extension, Frame, Unsubscribe

INPUT, OUTPUT = "n BETWEEN 2 AND 6", "n < 5"
PLACES = {"x": "a", "y": "b", "z": "b"}
ADMINISTERED: tuple[tuple[AnyChange, ...], ...] = (
    (),
    (SetSelective("M", "T", Interface.parse(input="n < 6", output="n > 1")),),
    (Impose("T", Interface.parse(input="n > 2", output="n < 4"), "M"),),
    (Impose("T", Interface.parse(input="n <> 4")),),
    (SetMapping("M", "T", edge_mapping(mapping(Convert("n", 2)))),),
    (Leave("M", "T"),),
)
"""What an administrator may do to a member "M", whatever it is."""


def seen(member: str, changes: tuple[AnyChange, ...]) -> tuple[list[Notification], list[Notification]]:
    """What the member sees of its sibling, and the sibling of it. A client has its subscriptions and advertisements for
    an interface; a scope in its place has an interface, and a client in it that wants and may publish everything."""
    world = Watched("ab", ["ab"], PLACES, routing=RoutingOptions(advertisements=True))
    scope = member == "scope"
    made: list[AnyChange] = [CreateScope("T", OPEN), Join("@x", "T")]
    if scope:
        made += [CreateScope("M", Interface.parse(input=INPUT, output=OUTPUT)), Join("@y", "M")]
    node = "M" if scope else "@y"
    made.append(Join(node, "T"))
    assert not world.change(*made).error
    for change in changes:
        assert not world.change(_of(change, node)).error
    x, y = world.client("x"), world.client("y")
    x.advertise("TRUE")
    x.subscribe("TRUE", receive_own=False)
    y.advertise("TRUE" if scope else OUTPUT)
    y.subscribe("TRUE" if scope else INPUT, receive_own=False)
    world.network.run()
    for number in range(9):
        x.publish(n=number)
        y.publish(n=number)  # what a client has not advertised is refused; what a scope does not let out stays in
    world.network.run()
    return y.received, x.received


def _of(change: AnyChange, node: str) -> AnyChange:
    values = {field: getattr(change, field) for field in change.__struct_fields__}
    return type(change)(**{field: node if value == "M" else value for field, value in values.items()})


@pytest.mark.req("ARC-202")
@pytest.mark.parametrize("changes", ADMINISTERED, ids=lambda changes: "".join(type(one).__name__ for one in changes))
def test_a_scope_stands_where_a_client_stands(changes: tuple[AnyChange, ...]) -> None:
    as_client, as_scope = seen("client", changes), seen("scope", changes)
    assert as_client == as_scope
    assert all(as_client) or any(isinstance(change, Leave) for change in changes)


@pytest.mark.req("ARC-216")
def test_a_name_is_unique_where_it_can_be_heard_and_may_be_used_again_elsewhere() -> None:
    graph = apply(
        Graph(),
        (
            *(CreateScope(id) for id in ("bank", "market", "bank/floor", "market/floor")),
            *(Join("bank/floor", "bank"), Join("market/floor", "market")),
        ),
    )
    assert resolve(graph, "floor", "bank") == "bank/floor"
    assert resolve(graph, "floor", "market") == "market/floor"
    with pytest.raises(ScopeError, match="'bank/floor' exists already"):
        apply(graph, (CreateScope("bank/floor"),))
    both = apply(graph, (Join("market/floor", "bank"),))
    with pytest.raises(AmbiguousName, match="write the id"):
        resolve(both, "floor", "bank")


class Inventory(Feature):
    """Lets administrators ask for a broker, for a scope at it or for a client of it, and turn a client out.

    Neither of them knows of it, and nothing of it is in their classes.
    """

    name = "inventory"

    broker: Broker

    def on_message(self, link: Link, body: bytes) -> None:
        question = json.loads(body)
        match question:
            case {"broker": name}:
                links = sorted(one.name for one in self.broker.adjacency.open_links)
                clients = sorted(client.name for client in self.broker.clients)
                answer: object = {"is me": name == self.broker.name, "links": links, "clients": clients}
            case {"scope": scope}:
                table = self.broker.scoping.tables[scope]
                answer = {"filters": len(table.subscriptions), "lookups": table.lookups, "copies": table.copies}
            case {"client": name}:
                client = self.broker.client(name)
                assert client is not None
                held = self.broker.registrations.subscriptions(client)
                answer = {"filters": sorted(str(one.filter) for one in held.values())}
            case {"unsubscribe": [name, id]}:
                client = self.broker.client(name)
                assert client is not None
                self.broker.receive(client, Frame(Unsubscribe(id)))
                answer = "done"
        self.context.send(link, json.dumps(answer).encode())


@pytest.mark.req("ARC-218")
def test_brokers_scopes_and_clients_can_be_given_a_management_interface_from_outside() -> None:
    inventory = Inventory()
    world = Watched("ab", ["ab"], PLACES, features=lambda broker: [inventory] if broker == "b" else [])
    inventory.broker = broker = world.network.brokers["b"]
    world.make("y < S", "z < S")
    world.subscribe("y", "z", filter="n > 3")
    answers: list[bytes] = []
    world.network.tap = lambda broker, link, frame: (
        answers.append(frame.message.body) if link.is_client and isinstance(frame.message, Extension) else None
    )

    def ask(**question: object) -> object:
        link = broker.client("z")
        assert link is not None
        broker.receive(link, Frame(Extension("inventory", json.dumps(question).encode())))
        world.network.run()
        return json.loads(answers.pop())

    assert ask(broker="b") == {"is me": True, "links": ["a"], "clients": ["y", "z"]}
    assert ask(scope="S") == {"filters": 2, "lookups": 0, "copies": 0}
    world.client("y").publish(n=4)
    world.network.run()
    assert ask(scope="S") == {"filters": 2, "lookups": 1, "copies": 2}
    assert ask(client="y") == {"filters": ["n > 3"]}
    (id,) = world.network.brokers["b"].registrations.subscriptions(world.network.brokers["b"].client("y"))
    assert ask(unsubscribe=["y", id]) == "done"
    assert ask(client="y") == {"filters": []}
    assert "inventory" not in world.network.brokers["a"].features
