"""Names in changes: whoever writes them, they are such as somebody can have."""

from __future__ import annotations

import pytest

from tidings.model import ScopeError
from tidings.scopes import (
    Anchor,
    AnyChange,
    CreateScope,
    Graph,
    Join,
    SetAdministration,
    SetAttributes,
    SetRoles,
    apply,
    credential,
    plan_change,
)

GRAPH = apply(Graph(), (CreateScope("S"),))
LONG = "x" * 257
WRITE = "write 1 to 256 characters, all of which can be printed"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (Join("@a\nb", "S"), f"'@a\\nb' cannot name a client: {WRITE}"),
        (Join("@", "S"), f"'@' cannot name a client: {WRITE}"),
        (SetRoles(f"@{LONG}", ("r",)), f"'@{'x' * 59}' cannot name a client: {WRITE}"),
        (SetAttributes("@\x07", {"a": 1}), f"'@\\x07' cannot name a client: {WRITE}"),
        (SetAdministration("S", ("",)), f"'' cannot name an administrator of 'S': {WRITE}"),
        (SetAdministration("", ("a\x00",)), f"'a\\x00' cannot name an administrator of 'root': {WRITE}"),
        (
            CreateScope("T", administrators=("ann", "@bob")),
            "'@bob' cannot name an administrator of 'T': write the name of the client without @, 'bob'",
        ),
        (Anchor("S", "b\x1b[31m", stay=True), f"'b\\x1b[31m' cannot name a broker that carries 'S': {WRITE}"),
        *(
            (
                SetAdministration("S", **{word: tuple(f"n{number}" for number in range(1_001))}),
                f"{word} of 'S': 1,001 names, at most 1,000 are allowed; name fewer",
            )
            for word in ("administrators", "trusted", "admission")
        ),
        (CreateScope("T", trusted=("b\t",)), f"'b\\t' cannot name a broker that 'T' trusts: {WRITE}"),
        (
            CreateScope("T", admission=("sesame",)),
            "the admission of 'T' holds something that is no digest: everybody who may read the graph would read the "
            "secret; write what `tidings.scopes.credential` makes of it",
        ),
    ],
)
def test_what_nobody_can_be_called_is_refused_in_a_change(change: AnyChange, said: str) -> None:
    with pytest.raises(ScopeError) as caught:
        plan_change(GRAPH, (change,))
    assert str(caught.value) == said


def test_names_that_somebody_can_have_and_digests_are_taken() -> None:
    changes = (
        Join("@Zoë/1", "S"),
        CreateScope("T", administrators=("ann",), trusted=("b1",), admission=(credential("sesame"),)),
        SetAdministration("S", tuple(f"n{number}" for number in range(1_000)), admission=()),
        Anchor("S", "Zürich 1", stay=True),
    )
    assert "T" in apply(GRAPH, plan_change(GRAPH, changes).changes).scopes
