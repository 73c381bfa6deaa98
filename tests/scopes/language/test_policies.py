"""POLICY in the scope language: deployed, altered, exported, planned and undone like everything else of a scope."""

from __future__ import annotations

import msgspec
import pytest
from scopes.language.script_world import carried_out, compiled, refusal

from tidings.model import ScopeError
from tidings.scopes import (
    CreateScope,
    Graph,
    PolicyKind,
    PolicyUse,
    SetPolicy,
    Transaction,
    apply,
    inverse,
    plan_change,
)
from tidings.scopes._messages import decode_transaction, encode
from tidings.scopes.language import export

R = "INTEGRATED_ROUTING"
DELAY = PolicyUse("delay", {"seconds": 900, "filter": "type = 'Quote'"})


def test_a_deployment_has_its_policies_and_an_export_writes_them_down_again() -> None:
    text = (
        "DEPLOY AS s POLICY PUBLISH delay (seconds = 900, filter = \"type = 'Quote'\") "
        f'POLICY INTERNAL DELIVERY chain (members = ["@a", "@b"]) {R}; ALTER SCOPE @ann POLICY PUBLISH full;'
    )
    graph = carried_out(text)
    chain = PolicyUse("chain", {"members": ("@a", "@b")})
    assert graph.scopes["s"].policies == {"publishing": DELAY, "internal": chain}
    assert graph.publishing("@ann") == PolicyUse("full")
    again = carried_out(export(graph))
    assert again.scopes["s"].policies == graph.scopes["s"].policies
    assert again.publishing("@ann") == PolicyUse("full")
    assert compiled(text, graph).changes == ()


def test_an_alter_changes_one_kind_and_leaves_the_others() -> None:
    graph = carried_out(f"DEPLOY AS s POLICY PUBLISH full POLICY DELIVERY full {R}")
    graph = carried_out("ALTER SCOPE s POLICY DELIVERY window (opens = '09:00', closes = '17:00')", graph)
    assert set(graph.scopes["s"].policies) == {"publishing", "delivery"}
    graph = carried_out("ALTER SCOPE s DEL POLICY DELIVERY window (opens = '09:00', closes = '17:00')", graph)
    assert set(graph.scopes["s"].policies) == {"publishing"}


@pytest.mark.parametrize(
    ("clause", "message"),
    [
        (
            "POLICY INTERNAL DELIVERY release",
            "the policy 'release' of a scope cannot be set up: commit is not given",
        ),
        (
            "POLICY PUBLISH delay (seconds = -1)",
            "the policy 'delay' of a scope cannot be set up: seconds is -1",
        ),
        ("POLICY PUBLISH delay (seconds = long)", "long is an attribute, and a policy is told values"),
    ],
)
def test_what_is_not_carried_out_is_refused_where_it_is_written(clause: str, message: str) -> None:
    refused = refusal(f"DEPLOY AS s\n  {clause}\n  {R}")
    assert ":2:" in refused
    assert message in refused


def test_a_plan_names_scopes_whose_policies_change_and_undoing_takes_them_back() -> None:
    before = apply(Graph(), (CreateScope("s"),))
    change = SetPolicy("s", PolicyKind.PUBLISHING, DELAY)
    (found,) = plan_change(before, (change,)).redelivered
    assert found.after == ("suppress, publishing delay(filter=\"type = 'Quote'\", seconds=900)",)
    after = apply(before, (change,))
    transaction = Transaction(after.version, (change,), "", 0, "")
    assert decode_transaction(encode(transaction)) == transaction
    assert inverse(before, transaction, after) == (SetPolicy("s", PolicyKind.PUBLISHING, None),)
    later = apply(after, (SetPolicy("s", PolicyKind.PUBLISHING, PolicyUse("full")),))
    with pytest.raises(ScopeError) as refused:
        inverse(before, transaction, later)
    assert "policies of 's' was changed again: it is publishing: full(), and was made publishing: delay(" in str(
        refused.value
    )
    client = SetPolicy("@ann", PolicyKind.PUBLISHING, PolicyUse("full"))
    said = apply(before, (client,))
    assert inverse(before, Transaction(said.version, (client,), "", 0, ""), said) == (
        msgspec.structs.replace(client, policy=None),
    )
