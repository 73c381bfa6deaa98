"""What is said about clients and scopes: typed attributes and roles, in the graph and on its way."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidings.model import Location, NotAllowed, ScopeError, ValueRefused
from tidings.scopes import (
    AnyChange,
    Ask,
    Attributes,
    Client,
    CreateScope,
    Graph,
    Join,
    Leave,
    SetAttributes,
    SetRoles,
    Snapshot,
    apply,
    dec_hook,
    decode,
    decode_snapshot,
    decode_transaction,
    enc_hook,
    encode,
    shown_to,
)
from tidings.scopes.service._rights import check_rights

SCALARS = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(UTC))
    | st.sampled_from([Location("/"), Location("/berlin/mitte")])
)
VALUES = SCALARS | st.lists(SCALARS, max_size=3)

# Written by the code that knew attributes as texts, of scopes only.
OLD_TRANSACTION = bytes.fromhex(
    "86a776657273696f6e01a76368616e676573988ca474797065ab43726561746553636f7065a26964a66d61726b6574a9696e"
    "7465726661636582a5696e707574a454525545a66f7574707574ae74797065203d202771756f746527a7696d706f73656482"
    "a5696e707574a454525545a66f7574707574a454525545a86162737472616374c2aa6174747269627574657382a463697479"
    "a64265726c696ea86372656174696f6ea727746f64617927ae61646d696e6973747261746f727391a5616c696365a6686964"
    "64656ec2a77472757374656490a961646d697373696f6e90aa6475706c69636174657300a76f726465726564c28ca4747970"
    "65ab43726561746553636f7065a26964ac6d61726b65742f666c6f6f72a9696e7465726661636582a5696e707574a546414c"
    "5345a66f7574707574a546414c5345a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a86162"
    "737472616374c2aa6174747269627574657380ae61646d696e6973747261746f727390a668696464656ec2a7747275737465"
    "6490a961646d697373696f6e90aa6475706c69636174657300a76f726465726564c288a474797065a44a6f696ea66d656d62"
    "6572ac6d61726b65742f666c6f6f72a573636f7065a66d61726b6574a973656c65637469766582a5696e707574a454525545"
    "a66f7574707574a454525545a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a76d61707069"
    "6e67c0a9706c6163656d656e74a46f6e6365a767617465776179a088a474797065a44a6f696ea66d656d626572a24061a573"
    "636f7065ac6d61726b65742f666c6f6f72a973656c65637469766582a5696e707574a454525545a66f7574707574a4545255"
    "45a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a76d617070696e67c0a9706c6163656d65"
    "6e74a46f6e6365a767617465776179a088a474797065a44a6f696ea66d656d626572a24062a573636f7065a66d61726b6574"
    "a973656c65637469766582a5696e707574a454525545a66f7574707574a454525545a7696d706f73656482a5696e707574a4"
    "54525545a66f7574707574a454525545a76d617070696e67c0a9706c6163656d656e74a46f6e6365a767617465776179a083"
    "a474797065a54c65617665a66d656d626572a24062a573636f7065a66d61726b657483a474797065ad536574417474726962"
    "75746573a573636f7065a66d61726b6574aa6174747269627574657382a463697479c0a473697a65a2313284a474797065a6"
    "416e63686f72a573636f7065a66d61726b6574a662726f6b6572a26231a473746179c2a377686fa5616c696365a26174ce00"
    "01e240a772657175657374a662312f312f31a46d6f6465a772656c61786564"
)
OLD_SNAPSHOT = bytes.fromhex(
    "85a776657273696f6e01a673636f706573938da26964a0a9696e7465726661636582a5696e707574a546414c5345a66f7574"
    "707574a546414c5345a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a86162737472616374"
    "c2aa6174747269627574657380ae61646d696e6973747261746f727390a668696464656ec2a77472757374656490a961646d"
    "697373696f6e90a77265766973656400a762726f6b65727390aa6475706c69636174657300a76f726465726564c28da26964"
    "a66d61726b6574a9696e7465726661636582a5696e707574a454525545a66f7574707574ae74797065203d202771756f7465"
    "27a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a86162737472616374c2aa617474726962"
    "7574657382a86372656174696f6ea727746f64617927a473697a65a23132ae61646d696e6973747261746f727391a5616c69"
    "6365a668696464656ec2a77472757374656490a961646d697373696f6e90a77265766973656401a762726f6b65727390aa64"
    "75706c69636174657300a76f726465726564c28da26964ac6d61726b65742f666c6f6f72a9696e7465726661636582a5696e"
    "707574a546414c5345a66f7574707574a546414c5345a7696d706f73656482a5696e707574a454525545a66f7574707574a4"
    "54525545a86162737472616374c2aa6174747269627574657380ae61646d696e6973747261746f727390a668696464656ec2"
    "a77472757374656490a961646d697373696f6e90a77265766973656401a762726f6b65727390aa6475706c69636174657300"
    "a76f726465726564c2ab6d656d62657273686970739288a66d656d626572ac6d61726b65742f666c6f6f72a573636f7065a6"
    "6d61726b6574a973656c65637469766582a5696e707574a454525545a66f7574707574a454525545a7696d706f73656482a5"
    "696e707574a454525545a66f7574707574a454525545a76d617070696e67c0a9706c6163656d656e74a46f6e6365a7676174"
    "65776179a0a573696e63650188a66d656d626572a24061a573636f7065ac6d61726b65742f666c6f6f72a973656c65637469"
    "766582a5696e707574a454525545a66f7574707574a454525545a7696d706f73656482a5696e707574a454525545a66f7574"
    "707574a454525545a76d617070696e67c0a9706c6163656d656e74a46f6e6365a767617465776179a0a573696e636501a761"
    "6e63686f727381a66d61726b657491a26231a869736f6c6174656491a24062"
)
OLD_ASK = bytes.fromhex(
    "87a474797065a341736ba772657175657374a27231a76368616e676573918ca474797065ab43726561746553636f7065a269"
    "64a66d61726b6574a9696e7465726661636582a5696e707574a454525545a66f7574707574ae74797065203d202771756f74"
    "6527a7696d706f73656482a5696e707574a454525545a66f7574707574a454525545a86162737472616374c2aa6174747269"
    "627574657382a463697479a64265726c696ea86372656174696f6ea727746f64617927ae61646d696e6973747261746f7273"
    "91a5616c696365a668696464656ec2a77472757374656490a961646d697373696f6e90aa6475706c69636174657300a76f72"
    "6465726564c2a46d6f6465a772656c61786564ab63726564656e7469616c7390a377686fa0ad61646d696e6973747261746f"
    "72c2"
)


@given(st.dictionaries(st.text(), VALUES | st.none(), max_size=4))
def test_attributes_come_back_as_they_were_with_their_kinds(values: dict[str, object]) -> None:
    attributes = Attributes(values)
    packed = msgspec.msgpack.encode(attributes, enc_hook=enc_hook)
    text = msgspec.json.encode(attributes, enc_hook=enc_hook)
    assert msgspec.msgpack.decode(packed, type=Attributes, dec_hook=dec_hook) == attributes
    assert msgspec.json.decode(text, type=Attributes, dec_hook=dec_hook) == attributes


def test_a_number_is_no_truth_and_no_text() -> None:
    assert Attributes({"x": 1}) != Attributes({"x": True})
    assert Attributes({"x": 1}) != Attributes({"x": 1.0})
    assert Attributes({"x": 1}) != Attributes({"x": "1"})
    assert Attributes({"x": [1, 2]}) == {"x": (1, 2)}


def test_what_no_notification_may_hold_is_no_attribute() -> None:
    with pytest.raises(ValueRefused, match="has no time zone"):
        SetAttributes("S", {"at": datetime(2026, 1, 1)})
    with pytest.raises(ValueRefused, match="attribute 'x': dict is not a value"):
        CreateScope("S", attributes={"x": {"y": 1}})


def test_a_change_and_a_graph_of_the_time_of_texts_are_still_read() -> None:
    transaction, snapshot = decode_transaction(OLD_TRANSACTION), decode_snapshot(OLD_SNAPSHOT)
    graph = apply(Graph(), transaction.changes)
    assert graph == snapshot.graph()
    assert graph.scopes["market"].attributes == {"creation": "'today'", "size": "12"}
    assert graph.scopes["market"].roles == ()
    assert graph.clients == {}
    asked = decode(OLD_ASK)
    assert isinstance(asked, Ask)
    assert asked.changes == transaction.changes[:1]


def test_texts_are_written_as_they_always_were() -> None:
    """So a broker that knows nothing else reads them."""
    assert encode(decode_transaction(OLD_TRANSACTION)).count(b"\xa6Berlin") == 1
    assert msgspec.msgpack.decode(encode(Ask("r", (SetAttributes("S", {"a": "b"}),))))["changes"] == [
        {"type": "SetAttributes", "scope": "S", "attributes": {"a": "b"}}
    ]


def test_clients_have_attributes_and_roles_as_scopes_have() -> None:
    graph = apply(
        Graph(),
        (
            CreateScope("S", attributes={"floors": 3}, roles=("house",)),
            SetAttributes("@a", {"sensor": True, "at": Location("/berlin")}),
            SetRoles("@a", ("boss", "clerk")),
            SetRoles("S", ("home",)),
            SetAttributes("@a", {"sensor": None, "age": 2.5}),
        ),
    )
    assert graph.attributes("@a") == {"at": Location("/berlin"), "age": 2.5}
    assert graph.roles("@a") == ("boss", "clerk")
    assert graph.attributes("S") == {"floors": 3}
    assert graph.roles("S") == ("home",)
    assert graph.attributes("@nobody") == {}
    assert decode_snapshot(encode(Snapshot.of(graph))).graph() == graph


def test_saying_something_about_a_client_does_not_take_it_out_of_the_root_scope() -> None:
    graph = apply(Graph(), (SetAttributes("@a", {"x": 1}),))
    assert graph.is_stranger("@a")
    assert list(graph.upward("@a")) == [""]
    assert apply(graph, (SetAttributes("@a", {"x": None}),)).clients == {}


def test_what_is_said_stays_when_a_client_leaves() -> None:
    graph = apply(Graph(), (CreateScope("S"), Join("@a", "S"), SetRoles("@a", ("boss",)), Leave("@a", "S")))
    assert graph.roles("@a") == ("boss",)
    assert graph.isolated == ["@a"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (SetAttributes("@", {"x": 1}), "'@' names no client; write '@' and the client's name"),
        (SetRoles("X", ()), "there is no scope 'X'; known scopes: none yet"),
        (SetRoles("@a", ("",)), "'' cannot be a role of '@a': use up to 256 printable characters"),
        (SetRoles("@a", ("x", "x")), "'@a' has at most 64 roles, each once; these are 2: leave some out"),
        (
            SetRoles("@a", tuple(map(str, range(65)))),
            "'@a' has at most 64 roles, each once; these are 65: leave some out",
        ),
        (
            SetAttributes("@a", {"x": list("abcdefgh" * 128), "y": "x" * 15_400}),
            "the attributes of a component have at most 16,384 characters together",
        ),
    ],
)
def test_what_cannot_be_said_is_refused(change: SetAttributes | SetRoles, problem: str) -> None:
    with pytest.raises(ScopeError) as error:
        apply(Graph(), (change,))
    assert str(error.value) == problem


def test_those_who_have_a_client_as_a_member_say_something_about_it_and_not_the_client() -> None:
    graph = apply(Graph(), (CreateScope("S", administrators=("boss",)), Join("@a", "S")))
    said = (SetAttributes("@a", {"experience": 10}), SetRoles("@a", ("clerk",)))
    check_rights(graph, Ask("r", said, who="boss"))
    with pytest.raises(NotAllowed, match="'a' may not SetAttributes here: it is not an administrator of every scope"):
        check_rights(graph, Ask("r", said, who="a"))
    with pytest.raises(NotAllowed):  # it is a member of nothing that the boss administers
        check_rights(graph, Ask("r", (SetRoles("@b", ()),), who="boss"))


@pytest.mark.parametrize(
    ("change", "lacking"),
    [
        (Join("@b", "S"), "every scope that '@b' is in"),
        (Join("@a", "S"), "every scope that '@a' is in"),
        (Join("@a", "T"), "'T' and every scope that '@a' is in"),
        (SetRoles("@a", ()), "every scope that '@a' is in"),
        (SetAttributes("@b", {"x": 1}), "every scope that '@b' is in"),
        (Join("S", "T"), "'T'"),
        (CreateScope("U"), "the root scope"),
    ],
)
def test_whoever_may_not_is_told_what_is_lacking_and_no_hidden_names(change: AnyChange, lacking: str) -> None:
    scopes = CreateScope("S", administrators=("boss",)), CreateScope("T", hidden=True), Join("@a", "T")
    with pytest.raises(NotAllowed) as error:
        check_rights(apply(Graph(), scopes), Ask("r", (change,), who="boss"))
    assert str(error.value) == (
        f"'boss' may not {type(change).__name__} here: it is not an administrator of {lacking}; "
        "ask one to do it, or to make you one"
    )


def test_what_is_said_about_clients_elsewhere_is_not_shown_to_everybody() -> None:
    graph = apply(
        Graph(),
        (
            *(CreateScope("S"), CreateScope("H", hidden=True), Join("@a", "S"), Join("@h", "H")),
            *(SetRoles(node, ("r",)) for node in ("@a", "@h", "@stranger", "@me")),
        ),
    )
    assert shown_to(graph, "me", administrator=False).clients.keys() == {"@a", "@me"}
    assert shown_to(graph, "me", administrator=True).clients == graph.clients
    assert graph.clients["@h"] == Client(roles=("r",))
