"""What policies say, from their documentation: the checker's own, which shares nothing with what brokers ask.

Only policies of the catalogue whose answer does not depend on the clock are known here; `ScopePlan` draws no others.
"""

from __future__ import annotations

from typing import NamedTuple

from tidings.model import Filter, Notification
from tidings.scopes import Graph, PolicyUse, is_client

ONE = frozenset(("one-of-n", "single"))
"""The policies that give something to one of several."""
SEVERAL = frozenset(("acknowledged", "rate-limit", "release", "state", "top-k"))
"""Those that give it to some of several, or to nobody, by what was decided before or is still to come."""


class Question(NamedTuple):
    """Whether a candidate gets a notification."""

    notification: Notification
    candidate: str
    publisher: str
    way: tuple[str, ...]
    """The nodes that it has come through, the publisher first, and where it is now last."""


def says_yes(graph: Graph, use: PolicyUse | None, question: Question) -> bool:
    """Whether a policy lets the candidate have it; where there is none, everybody has it."""
    if use is None:
        return True
    given, (notification, candidate, publisher, way) = use.parameters, question
    match use.name:
        case "full" | "delay":
            return True
        case name if name in ONE | SEVERAL:  # it may: whoever is chosen is one of these
            return candidate != publisher
        case "key-dispatch":
            rows = dict(row.rsplit("=", 1) for row in _listed(given["table"]))
            value = notification.get(given["attribute"])
            return candidate == (rows.get(str(value)) if value is not None else None) or (
                candidate == given.get("others") and (value is None or str(value) not in rows)
            )
        case "chain":
            handlers, source = _listed(given["members"]), way[-2]
            if source == handlers[-1]:
                return candidate not in handlers
            after = handlers[handlers.index(source) + 1] if source in handlers else handlers[0]
            return candidate == after
        case "producer":
            named = not given.get("publishers") or publisher in _listed(given["publishers"])
            if given.get("roles"):
                named = named and bool({*_listed(given["roles"])} & {*graph.roles(publisher)})
            if given.get("through"):
                scopes = [node for node in way if not is_client(node)]
                named = named and any(scope in _listed(given["through"]) for scope in scopes)
            return named is not given.get("deny", False)
        case "credentials":
            demanded = given["level"] if "level" in given else notification.get(given["demanded"])
            held = graph.attributes(candidate).get(given["attribute"])
            return demanded is None or (
                isinstance(held, int) and isinstance(demanded, int | float) and held >= demanded
            )
        case "parameters":
            value = notification.get(given["attribute"])
            known = _listed(graph.attributes(candidate).get(given["member"], ()))
            return value is not None and any(one in known for one in _listed(value))
    raise AssertionError(f"the checker does not know the policy {use}")


def compares(use: PolicyUse | None) -> bool:
    """Whether a policy is asked at the deciding point of its scope, about all that might get something."""
    return use is not None and use.name in ONE | SEVERAL


def gives_to_one(use: PolicyUse | None) -> bool:
    """Whether it gives something to one of them."""
    return use is not None and use.name in ONE


def takes_turns(use: PolicyUse | None) -> bool:
    """Whether it gives to them in turn."""
    return use is not None and use.name == "one-of-n" and use.parameters.get("by", "turn") == "turn"


def delay_of(use: PolicyUse | None, notification: Notification) -> int:
    """For how many microseconds after its publication a policy keeps something back."""
    if use is None or use.name != "delay":
        return 0
    text = use.parameters.get("filter")
    if text is not None and not Filter.parse(text).matches(notification):
        return 0
    return round(float(use.parameters["seconds"]) * 1_000_000)


def longest_delay(graph: Graph) -> int:
    """The longest that anything is kept back."""
    return max(
        (round(use.parameters["seconds"] * 1_000_000) for use in graph.policies if use.name == "delay"), default=0
    )


def _listed(value: object) -> list[str]:
    return [*map(str, value)] if isinstance(value, tuple) else [str(value)]
