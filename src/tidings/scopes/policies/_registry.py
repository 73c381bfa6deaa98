"""Which policies there are: the catalogue, and what was registered in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidings.model import ScopeError, TidingsError

from ._chain import Chain
from ._credentials import Credentials
from ._delay import Delay
from ._full import Full
from ._key_dispatch import KeyDispatch
from ._one_of_n import OneOfN, Single
from ._parameters import Parameters
from ._policy import MAX_POLICY_NAME, Policy, PolicyContext, PolicyKind, PolicyUse
from ._producer import Producer
from ._rate_limit import RateLimit
from ._release import Acknowledged, Release
from ._state import State
from ._top_k import TopK
from ._window import Window

CATALOGUE: Mapping[str, Callable[[], Policy]] = {
    "acknowledged": Acknowledged,
    "chain": Chain,
    "credentials": Credentials,
    "delay": Delay,
    "full": Full,
    "key-dispatch": KeyDispatch,
    "one-of-n": OneOfN,
    "parameters": Parameters,
    "producer": Producer,
    "rate-limit": RateLimit,
    "release": Release,
    "single": Single,
    "state": State,
    "top-k": TopK,
    "window": Window,
}
"""What every broker knows."""

_SET = "it compares what is at several places, and no deciding point carries that out yet"

COMPARING = frozenset(("acknowledged", "one-of-n", "rate-limit", "release", "single", "state", "top-k"))
"""The policies of the catalogue that compare candidates, or whose answers depend on earlier ones."""

_STATELESS = frozenset(("one-of-n", "single", "top-k"))
"""Those of them whose answer is as good without what they remember."""

_KINDS = {
    "chain": frozenset((PolicyKind.INTERNAL,)),
    **dict.fromkeys(COMPARING, frozenset((PolicyKind.DELIVERY, PolicyKind.INTERNAL))),
}
_registered: dict[str, Callable[[], Policy]] = {}
forgotten: list[Callable[[str], None]] = []
"""Called with the name of a policy of which another form has been registered."""


def register_policy(name: str, make: Callable[[], Policy]) -> None:
    """Make a policy known in this process under a name; `make` gives a new one for each component.

    Raises `ScopeError` for a name that is taken by the catalogue. Whoever registers the same name again replaces it.

    >>> register_policy("quiet", Policy)
    """
    if name in CATALOGUE:
        raise ScopeError(f"'{name}' is a policy of the catalogue; register yours under another name")
    if not name or len(name) > MAX_POLICY_NAME or not name.isprintable():
        raise ScopeError(
            f"'{name:.60}' cannot name a policy; use 1 to {MAX_POLICY_NAME} printable characters, as in 'night-shift'"
        )
    _registered[name] = make
    for forget in forgotten:
        forget(name)


def is_known(name: str) -> bool:
    """Whether this process can carry out a policy."""
    return name in CATALOGUE or name in _registered


def compares(use: PolicyUse) -> bool:
    """Whether a policy is asked at a deciding point: one that compares candidates, or keeps a state.

    That must not depend on what is registered where: of a policy that is not of the catalogue, a parameter says it.
    """
    return use.name in COMPARING or (use.name not in CATALOGUE and "point" in use.parameters)


def gives_to_one(use: PolicyUse) -> bool:
    """Whether a policy gives everything to one member; of one that is not of the catalogue nobody knows."""
    return use.name in ("one-of-n", "single")


def keeps_state(use: PolicyUse) -> bool:
    """Whether the answers of a policy depend on earlier ones; of one that is not of the catalogue, they may."""
    return use.name not in _STATELESS and compares(use)


def may_delay(use: PolicyUse) -> bool:
    """Whether somebody may get something later by a policy: what is delayed, or has been to a deciding point before.

    Of one that is not of the catalogue nobody knows.
    """
    return use.name == "delay" or use.name in COMPARING or use.name not in CATALOGUE


def made(use: PolicyUse, kind: PolicyKind, component: str) -> Policy:
    """A new policy, set up for a component. Raises `ScopeError` if there is none, or if its parameters are wrong."""
    make = CATALOGUE.get(use.name) or _registered.get(use.name)
    if make is None:
        raise ScopeError(f"no policy '{use.name}' is registered here; call register_policy first")
    policy = make()
    policy.init(PolicyContext(kind, component, use.parameters))
    return policy


def check_use(use: PolicyUse, kind: PolicyKind, whose: str, component: str = "") -> None:
    """Raise `ScopeError` for a policy that no broker carries out, or carries out only elsewhere.

    `whose` names the component for people. A name that is not of the catalogue is taken as it is: others may have
    registered it.
    """
    name = use.name
    if not name or len(name) > MAX_POLICY_NAME or not name.isprintable():
        raise ScopeError(
            f"'{name:.60}' cannot name a policy of {whose}; use 1 to {MAX_POLICY_NAME} printable characters"
        )
    if kind is PolicyKind.TRAVERSE:
        raise ScopeError(
            f"{whose} cannot have the traverse policy '{name}': {_SET}; "
            "leave it out, then everything is delivered at every level"
        )
    kinds = _KINDS.get(name)
    if kinds is None and compares(use):
        kinds = _KINDS["one-of-n"]
    if kinds is not None and kind not in kinds:
        words = " or ".join(sorted(one.value for one in kinds))
        raise ScopeError(f"'{name}' is no {kind.value} policy of {whose}; give it as {words} policy")
    if name in CATALOGUE:
        try:
            made(use, kind, component)
        except TidingsError as error:
            raise ScopeError(f"the policy '{name}' of {whose} cannot be set up: {error}") from None
