"""The stock market of the documents, as far as it stands still: who receives what in two markets."""

from __future__ import annotations

from tidings.model import Filter, Notification
from tidings.scopes import CreateScope, Graph, Interface, Join, apply, explain, sightings


def types(*names: str) -> Filter:
    return Filter.parse(f"type IN ({', '.join(repr(name) for name in names)})" if names else "FALSE")


def scope(id: str, input: tuple[str, ...], output: tuple[str, ...]) -> CreateScope:
    return CreateScope(id, Interface(types(*input), types(*output)))


def market(number: int) -> tuple[CreateScope | Join, ...]:
    """One market: its floor is open to professionals, and through them to private customers."""
    return (
        CreateScope(f"M{number}"),
        scope(f"Priv{number}", (), ("Trade",)),
        scope(f"Prof{number}", ("Order",), ("Accept", "Quote")),
        scope(f"TF{number}", ("Order",), ("Accept", "Quote")),
        Join(f"Priv{number}", f"M{number}"),
        Join(f"Prof{number}", f"Priv{number}"),
        Join(f"TF{number}", f"Prof{number}"),
        Join(f"@me{number}", f"TF{number}"),
        Join(f"@db{number}", f"TF{number}"),
    )


def customer(number: int, *places: str, input: tuple[str, ...] = ("Accept", "Quote")) -> tuple[CreateScope | Join, ...]:
    id = f"C{number}"
    return (scope(id, input, ("Order",)), *(Join(id, place) for place in places), Join(f"@pc{number}", id))


def exchange(**customers: tuple[str, ...]) -> Graph:
    changes = (
        *market(1),
        *market(2),
        *customer(1, "Priv1", **customers),
        *customer(2, "Priv1", **customers),
        *customer(3, "Prof1", "Prof2", **customers),
        *customer(4, "Priv2", **customers),
    )
    return apply(Graph(), changes)


STOCK = exchange()
SUBSCRIPTIONS = {
    "me": types("Order"),
    "db": types("Order", "Quote"),
    "pc1": Filter.parse("type IN ('Accept', 'Trade') OR type = 'Quote' AND share = 'IBM'"),
    "pc": Filter.parse("type IN ('Accept', 'Trade') OR type = 'Quote' AND share = 'SAP'"),
}
CLIENTS = ["me1", "db1", "me2", "db2", "pc1", "pc2", "pc3", "pc4"]


def receivers(publisher: str, type: str, *, share: str = "SAP", graph: Graph = STOCK) -> set[str]:
    """The clients that may see it, and subscribe to it."""
    published = Notification(type=type, share=share)
    found = set()
    for client in CLIENTS:
        wanted = SUBSCRIPTIONS.get(client, SUBSCRIPTIONS[client[:2]])
        seen = sightings(graph, f"@{publisher}", published, f"@{client}")
        if client != publisher and any(wanted.matches(at.notification) for at in seen):
            found.add(client)
    return found


def test_a_quote_reaches_the_database_and_all_customers_of_its_market_who_asked_for_the_share() -> None:
    assert receivers("me1", "Quote") == {"db1", "pc2", "pc3"}
    assert receivers("me1", "Quote", share="IBM") == {"db1", "pc1"}
    assert receivers("me2", "Quote") == {"db2", "pc3", "pc4"}


def test_a_customer_of_the_other_market_is_told_why_it_sees_nothing() -> None:
    told = explain(STOCK, "@me1", Notification(type="Quote", share="SAP"), "@pc4")
    assert not told.visible
    assert "they have no scope in common" in str(told)


def test_the_order_book_stays_on_the_floor() -> None:
    assert receivers("me1", "OrderBook") == set(), "the database sees it, and does not want it"
    book = Notification(type="OrderBook", share="SAP")
    assert {client for client in CLIENTS if sightings(STOCK, "@me1", book, f"@{client}")} == {"me1", "db1"}


def test_an_order_reaches_the_floors_of_the_customer_s_markets_and_nobody_else() -> None:
    assert receivers("pc1", "Order") == {"me1", "db1"}
    assert receivers("pc3", "Order") == {"me1", "db1", "me2", "db2"}
    assert receivers("pc4", "Order") == {"me2", "db2"}


def test_an_acceptance_is_seen_by_every_customer_of_the_market() -> None:
    assert receivers("me1", "Accept") == {"pc1", "pc2", "pc3"}
    assert receivers("me2", "Accept") == {"pc3", "pc4"}


def test_with_the_table_as_printed_no_customer_gets_a_quote() -> None:
    printed = exchange(input=("Accept",))
    assert receivers("me1", "Quote", graph=printed) == {"db1"}
    assert receivers("me1", "Accept", graph=printed) == {"pc1", "pc2", "pc3"}


def test_what_a_customer_s_devices_tell_each_other_stays_with_the_customer() -> None:
    watched = apply(STOCK, (Join("@watcher1", "C1"),))
    limit = Notification(type="Limit", share="SAP")
    assert len(sightings(watched, "@watcher1", limit, "@pc1")) == 1
    assert [client for client in CLIENTS if sightings(watched, "@watcher1", limit, f"@{client}")] == ["pc1"]
