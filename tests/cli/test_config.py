"""The configuration: every key documented, every error explained where it stands."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import json
import re
import stat
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import tidings
from tidings.aggregation import AggregationOptions
from tidings.aggregation.deploying import keys_of
from tidings.broker import Role, RoutingOptions
from tidings.cli import app
from tidings.cli._config import Configuration, ConfigurationError, load
from tidings.cli._lines import lines_of
from tidings.cli._settings import (
    ACCESS,
    AGGREGATION,
    ARCHIVE,
    BORDER_KEY,
    CACHING,
    ENTRIES,
    HISTORY,
    LIMITS,
    MOBILITY,
    ROUTING,
    STORE,
    TABLES,
    TLS,
    TOP,
)
from tidings.cli._settings_text import as_toml, described
from tidings.cli._signers import KEYS
from tidings.history import Align, CacheLimits, HistoryOptions, StrategyOptions
from tidings.mobility import MobilityOptions
from tidings.net import AccessEntry, ArchiveOptions, Limits, Options, Server, StoreOptions, TlsOptions, serve
from tidings.scopes import BorderKey, secret_key

PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"
SECTIONS = {
    "The broker": TOP,
    "`[routing]`": ROUTING,
    "`[tls]`": TLS,
    "`[[access]]`": ACCESS,
    "`[[border_key]]`": BORDER_KEY,
    "`[store]`": STORE,
    "`[archive]`": ARCHIVE,
    "`[history]`": HISTORY,
    "`[caching]`": CACHING,
    "`[aggregation]`": AGGREGATION,
    "`[[aggregation.signer]]`": KEYS,
    "`[mobility]`": MOBILITY,
    "`[limits]`": LIMITS,
}

ENDLESS = "9" * 5_000
"""A number of more digits than `int` reads."""

run = CliRunner()


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    file = tmp_path / "broker.toml"
    file.write_text(text)
    file.chmod(mode)
    return file


def complaints(tmp_path: Path, text: str) -> list[tuple[int, str, str]]:
    """The line, key and whole text of each error."""
    with pytest.raises(ConfigurationError) as caught:
        load(written(tmp_path, text))
    return [(problem.line, problem.key, str(problem)) for problem in caught.value.problems if not problem.warning]


def documented() -> dict[str, dict[str, str]]:
    """The keys of the page with their defaults, by section."""
    found: dict[str, dict[str, str]] = {}
    for section in re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        found[title] = dict(re.findall(r"^\| `(\w+)` \| ([^|]+) \|", body, flags=re.MULTILINE))
    return found


def test_every_key_is_documented_and_every_documented_key_exists() -> None:
    assert {title: set(keys) for title, keys in documented().items()} == {
        title: set(keys) for title, keys in SECTIONS.items()
    }


def test_the_documented_defaults_are_the_defaults() -> None:
    settings = described(Configuration(Options()))
    page = documented()
    for title, values in (
        ("The broker", settings),
        ("`[routing]`", settings["routing"]),
        ("`[store]`", settings["store"]),
        ("`[history]`", settings["history"]),
        ("`[caching]`", settings["caching"]),
        ("`[aggregation]`", settings["aggregation"]),
        ("`[mobility]`", settings["mobility"]),
        ("`[limits]`", settings["limits"]),
    ):
        for key, default in page[title].items():
            if key in values:
                assert default == f"`{json.dumps(values[key])}`", key


def test_every_option_can_be_set_by_the_file() -> None:
    of_the_file = {"topology": "strict_topology", "log_level": None, "log_json": None}
    settable = {of_the_file.get(key, key) for key in TOP} | TABLES.keys() | ENTRIES.keys()
    in_python = {"admission", "locate"}  # a function
    assert {field.name for field in dataclasses.fields(Options)} - in_python <= settable
    assert {field.name for field in dataclasses.fields(Limits)} == set(LIMITS)
    assert {field.name for field in dataclasses.fields(RoutingOptions)} == set(ROUTING)
    assert {field.name for field in dataclasses.fields(TlsOptions)} == set(TLS)
    assert {field.name for field in dataclasses.fields(StoreOptions)} == set(STORE)
    assert {field.name for field in dataclasses.fields(ArchiveOptions)} == set(ARCHIVE)
    assert {field.name for field in dataclasses.fields(HistoryOptions)} == set(HISTORY)
    assert {field.name for field in dataclasses.fields(AggregationOptions)} == set(AGGREGATION)
    assert {field.name for field in dataclasses.fields(MobilityOptions)} == set(MOBILITY)
    nested = {"limits", *(field.name for field in dataclasses.fields(CacheLimits))}
    of_history = {"timer", "max_answer"}
    assert {field.name for field in dataclasses.fields(StrategyOptions)} | nested == {*CACHING, "limits", *of_history}
    assert {field.name for field in dataclasses.fields(AccessEntry)} <= set(ACCESS)


@contextlib.asynccontextmanager
async def linked(one: Options, other: Options) -> AsyncIterator[tuple[Server, tidings.Client, tidings.Client]]:
    """Two brokers with a link, of which the first comes out, and a client at each."""
    async with serve(replace(one, name="a")) as first:
        address = f"tidings://127.0.0.1:{first.port}"
        async with (
            serve(replace(other, name="b", neighbours=(address,))) as second,
            tidings.connect(address) as near,
            tidings.connect(f"tidings://127.0.0.1:{second.port}") as far,
            asyncio.timeout(20),
        ):
            while not first.host.broker.adjacency.open_links or not second.host.broker.adjacency.open_links:
                await asyncio.sleep(0.01)
            yield first, near, far


@pytest.mark.req("ARC-018", "VIS-211")
@pytest.mark.parametrize("algorithm", ["flooding", "simple", "identity", "covering", "merging", "imperfect-merging"])
def test_the_file_chooses_how_a_network_routes_and_clients_do_not_notice(tmp_path: Path, algorithm: str) -> None:
    configured = load(written(tmp_path, f'port = 0\n[routing]\nalgorithm = "{algorithm}"\n')).options

    async def run() -> list[int]:
        async with linked(configured, configured) as (first, publisher, subscriber):
            wide, narrow = await subscriber.subscribe("n > 1"), await subscriber.subscribe("n > 2")
            await publisher.publish_many({"n": n} for n in range(5))
            heard = [(await anext(subscription))["n"] for subscription in (wide, wide, wide, narrow, narrow)]
            told = first.host.broker.root.subscriptions
            return [*heard, len(told)]

    *heard, told = asyncio.run(run())
    assert heard == [2, 3, 4, 3, 4]
    assert told == {"flooding": 0, "simple": 2, "identity": 2}.get(algorithm, 1)


@pytest.mark.req("HIS-132")
@pytest.mark.parametrize("strategy", ["merging", "replay", "border", "strict", "off"])
def test_the_file_chooses_how_the_past_is_found(tmp_path: Path, strategy: str) -> None:
    """Two brokers whose caches differ in size; a late subscriber at the one gets what the other remembers."""
    text = f'port = 0\n[routing]\nalgorithm = "simple"\n[history]\nstrategy = "{strategy}"\n'
    small = load(written(tmp_path, text + "[caching]\nmax_global = 21\nmax_filters = 10\nmax_per_filter = 2\n")).options
    large = load(written(tmp_path, text)).options

    async def run() -> list[int]:
        async with linked(small, large) as (_, near, far):
            early = await near.subscribe("n > 0")
            await far.publish_many({"n": n} for n in range(1, 6))
            assert [(await anext(early))["n"] for _ in range(5)] == [1, 2, 3, 4, 5]
            late = near.subscribe("n > 0", past=tidings.last(4))
            await late
            await far.publish(n=6)
            heard = []
            while not heard or heard[-1] != 6:
                heard.append((await anext(late))["n"])
            return heard

    if strategy == "off":
        with pytest.raises(tidings.TidingsError, match="keeps no history"):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == ([4, 5, 6] if strategy == "border" else [2, 3, 4, 5, 6])


def test_settings_of_caches_are_checked_together(tmp_path: Path) -> None:
    options = load(written(tmp_path, '[caching]\nalign = "count"\nmax_depth = 3\n')).options
    assert options.caching == StrategyOptions(align=Align.COUNT, max_depth=3)
    assert described(Configuration(options))["caching"]["align"] == "count"
    with pytest.raises(ConfigurationError) as refused:
        load(written(tmp_path, "[caching]\nmax_global = 150\nmax_filters = 15\nmax_per_filter = 10\n"))
    assert "caching" in str(refused.value)
    assert "max_global = 150 is too small" in str(refused.value)
    with pytest.raises(ConfigurationError, match="producer_history = 500 is not within"):
        load(written(tmp_path, "[caching]\nproducer_history = 500\n"))


def test_a_file_becomes_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TOKEN", "a" * 32)
    (tmp_path / "op.token").write_text("b" * 32 + "\n")
    (tmp_path / "op.token").chmod(0o600)
    text = """
        name = "berlin"
        port = 0
        data = "store"
        role = "inner"
        topology = "strict"
        neighbours = ["tidings://127.0.0.1:7399"]
        [limits]
        heartbeat = 3
        [[access]]
        name = "feed"
        token_env = "FEED_TOKEN"
        publish = "type = 'quote'"
        [[access]]
        name = "operator"
        token_file = "op.token"
        administer = true
    """
    found = load(written(tmp_path, text), {"port": 9}).options
    assert (found.name, found.port, found.role, found.strict_topology) == ("berlin", 9, Role.INNER, True)
    assert found.data == tmp_path / "store"
    assert found.limits == Limits(heartbeat=3.0)
    assert found.access.tokens["a" * 32].name == "feed"
    assert str(found.access.tokens["a" * 32].publish) == "type = 'quote'"
    assert found.access.tokens["b" * 32].administer


def test_all_errors_are_told_at_once_each_with_its_line(tmp_path: Path) -> None:
    text = """\
nmae = "berlin"
port = 99999
neighbours = ["http://paris"]
heartbeat = 3

[limits]
drain = "long"

[routing]
algorithm = "magic"

[[access]]
name = "feed"
token = "0123456789abcdef"
publish = "type = quote"
"""
    found = complaints(tmp_path, text)
    assert [(line, key) for line, key, _ in found] == [
        (1, "nmae"),
        (2, "port"),
        (3, "neighbours"),
        (4, "heartbeat"),
        (7, "limits.drain"),
        (10, "routing.algorithm"),
        (15, "access[1].publish"),
    ]
    told = [text for _, _, text in found]
    assert "did you mean name?" in told[0]
    assert "99999 is out of range" in told[1]
    assert "from 0 to 65535" in told[1]
    assert "tidings://host:port" in told[2]
    assert "under [limits]" in told[3]
    assert "'long' is a text" in told[4]
    assert '"covering"' in told[5]
    assert "column 8: " in told[6]
    assert "^" in told[6]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('host = "0.0.0.0"', "without TLS and authentication"),
        ('[tls]\ncertificate = "nowhere.pem"\nkey = "nowhere.key"', "cannot be read"),
        ("[tls]", "the certificate is missing"),
        ('[[access]]\nname = "a"\ntoken = "0123456789abcdef"\nsubscribe = "place WITHIN myloc"', "uses myloc"),
        ('[mobility]\nplace = "/a//b"', "'/a//b' is not a location"),
        ("[mobility]\nsilence = 3", 'like silence = { "phone-*" = 3 }'),
        ('[mobility]\nsilence = { "phone-*" = 0.1 }', "0.1 is out of range; write a number from 0.5 to 600"),
        ('[mobility]\nsilence = { "" = 3 }', "a text of 0 characters"),
        ("port = 7400\nmetrics_port = 7400", "is also the port of the broker"),
        ('neighbours = ["tidings://localhost:7311"]', "this broker itself"),
        ('neighbours = ["tidings://a:1", "tidings://a:1"]', "appears twice"),
        ("authority = 7", "7 is a whole number"),
        ('autority = "berlin"', "did you mean authority?"),
        ('neighbours = ["tidings://a:99999"]', "not an address"),
        ('neighbours = ["a:1", "tidings://a:1"]', "'tidings://a:1' appears twice"),
        ('neighbours = ["tidings://token@a:1"]', "more than host and port"),
        ('[[access]]\nname = "x"', "nothing identifies 'x'"),
        ('[[access]]\ntoken = "0123456789abcdef"', "the name is missing"),
        ('[[access]]\nname = "x"\ncertificate = "x"', "no CA that may sign them"),
        ('[[access]]\nname = "x"\ntoken = "t"\ntoken_env = "T"', "all give a token"),
        ('[[access]]\nname = "x"\ntoken_env = "NO_SUCH_VARIABLE"', "holds no token"),
        ('[[access]]\nname = "x"\ntoken = 7', "a token is a text"),
        ('[access]\nname = "x"', "[[access]]"),
        ("limits = 7", "[limits]"),
        ("role = 7", '"border"'),
        ('insecure = "yes"', "without quotes"),
        ("port = true", "whole number"),
        (
            'neighbour_token = "0123456789abcdef"\nneighbours = ["tidings://a:1"]',
            "tidings+tls://a:1, or insecure",
        ),
        ("port = ", "not TOML: the end of the line is not a value; put texts in double quotes"),
        ("name = berlin", "not TOML: 'berlin' is not a value"),
        ('name = "x"\nname = "y"', "not TOML: a key appears twice; keep one of them"),
        ("port = 07311", "not TOML: '7311' does not belong after the value; write one `key = value` per line"),
        ("[limits\n", "not TOML: the name of a table is not closed; write [limits]"),
        ("[limits]\n[limits]\n", "not TOML: a table appears twice"),
        ('name = "x\n', "not TOML: a text is not closed"),
        ('data = "C:\\data"', "not TOML: a \\ in a text means nothing here"),
        ("= 5", "not TOML: '= 5' cannot begin a line"),
        ("name", "not TOML: there is no = after the key"),
        (f"\nport = {ENDLESS}", "line 2: file: a number has too many digits"),
        (f"port = 0x{ENDLESS}", "a number of thousands of digits is out of range; write a whole number"),
        (f"name = [0x{ENDLESS}]", "a number of thousands of digits is a list"),
        (f"[limits]\ndrain = 0x{ENDLESS}", "a number of thousands of digits is out of range; write a number"),
        (f"[store]\nretain_for = 0x{ENDLESS}", "is not a duration"),
        (f'[store]\nretain_for = "{ENDLESS}h"', "is not a duration"),
        (f'[store]\nretain_bytes = "{ENDLESS}GB"', "is not a size"),
        (f"[store]\nretain_bytes = 0x{ENDLESS}", "is out of range; write at most"),
    ],
)
def test_what_is_wrong_is_explained(tmp_path: Path, text: str, told: str) -> None:
    assert any(told in complaint for _, _, complaint in complaints(tmp_path, text))


def test_two_entries_must_not_share_a_token(tmp_path: Path) -> None:
    text = '[[access]]\nname = "a"\ntoken = "0123456789abcdef"\n[[access]]\nname = "b"\ntoken = "0123456789abcdef"\n'
    ((line, _, told),) = complaints(tmp_path, text)
    assert line == 4
    assert "the token of 'a'" in told
    assert "0123456789abcdef" not in told


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    result = run.invoke(app, ["config", "check", str(tmp_path / "none.toml")])
    assert result.exit_code == 6
    assert "No such file" in result.output


NAMES = """\
[[access]]
name = "shop"
token = "0123456789abcdef"
names = ["feed-*"]

[[access]]
name = "other"
token = "123456789abcdef0"
names = ["billing", "f*-eu"]

[[access]]
name = "shop/till"
token = "23456789abcdef01"
"""


def test_two_entries_must_not_share_a_name(tmp_path: Path) -> None:
    first, second = complaints(tmp_path, NAMES)
    assert first[:2] == (9, "access[2].names")
    assert "'other' and 'shop' may both be called 'feed-eu'" in first[2]
    assert second[:2] == (12, "access[3].name")
    assert "'shop' and 'shop/till' may both be called 'shop/till'" in second[2]


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ('"billing"', "write a list of names"),
        ("[7]", "is a whole number"),
        ('[""]', "0 characters"),
        ('["a", "a"]', "'a' appears twice"),
        (json.dumps([f"n{n}" for n in range(101)]), "a list of 101 names"),
    ],
)
def test_names_that_are_no_names_are_explained(tmp_path: Path, names: str, told: str) -> None:
    ((line, key, text),) = complaints(tmp_path, f'[[access]]\nname = "a"\ntoken = "{"0" * 16}"\nnames = {names}\n')
    assert (line, key) == (4, "access[1].names")
    assert told in text


def test_names_are_shown_with_their_owners(tmp_path: Path) -> None:
    text = NAMES.replace("f*-eu", "foo").replace("shop/till", "paris") + "broker = true\n"
    file = written(tmp_path, text)
    assert load(file).options.access.tokens["123456789abcdef0"].names == ("billing", "foo")
    shown = run.invoke(app, ["config", "names", str(file)])
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["billing", "other"],
        ["feed-*", "shop"],
        ["foo", "other"],
        ["other", "other"],
        ["other/*", "other"],
        ["shop", "shop"],
        ["shop/*", "shop"],
    ]
    assert json.loads(run.invoke(app, ["config", "names", str(file), "--json"]).stdout)["feed-*"] == "shop"
    assert "anyone may use any name" in run.invoke(app, ["config", "names", str(written(tmp_path, ""))]).stdout
    assert 'names = ["feed-*"]' in run.invoke(app, ["config", "show", str(written(tmp_path, text))]).stdout


def test_a_file_with_tokens_that_everybody_may_read_draws_a_warning(tmp_path: Path) -> None:
    text = '[[access]]\nname = "a"\ntoken = "0123456789abcdef"\n'
    assert not load(written(tmp_path, text)).warnings
    (warning,) = load(written(tmp_path, text, mode=0o644)).warnings
    assert "chmod 600" in warning.remedy


def test_a_short_token_draws_a_warning(tmp_path: Path) -> None:
    (warning,) = load(written(tmp_path, '[[access]]\nname = "a"\ntoken = "short"\n')).warnings
    assert "only 5 characters" in warning.problem


def test_the_command_tells_everything_and_its_exit_code_too(tmp_path: Path) -> None:
    file = written(tmp_path, 'port = "x"\nrole = "y"\n')
    result = run.invoke(app, ["config", "check", str(file)])
    assert result.exit_code == 6
    assert f"{file}:1: port" in result.stdout
    assert f"{file}:2: role" in result.stdout
    assert "2 errors" in result.stdout
    as_json = run.invoke(app, ["config", "check", "--json", str(file)])
    assert [problem["line"] for problem in json.loads(as_json.stdout)["problems"]] == [1, 2]
    good = run.invoke(app, ["config", "check", str(written(tmp_path, "port = 0\n"))])
    assert good.exit_code == 0
    assert "all is well" in good.stdout


def test_the_example_of_the_page_only_lacks_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPERATOR_TOKEN", "x" * 32)
    (example,) = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    told = complaints(tmp_path, example)
    ours = [complaint for *_, complaint in told if "cannot be read" not in complaint]
    # Without the files there is no [tls], and what follows from that.
    assert all("TLS" in complaint or "no CA" in complaint for complaint in ours), ours


def test_show_hides_tokens_and_can_be_read_back(tmp_path: Path) -> None:
    silent = '[mobility]\nsilence = { "phone-*" = 3, "x" = 0.5 }\n'
    file = written(tmp_path, f'name = "b"\n{silent}[[access]]\nname = "a"\ntoken = "0123456789abcdef"\n')
    shown = run.invoke(app, ["config", "show", str(file)])
    assert shown.exit_code == 0
    assert "0123456789abcdef" not in shown.output
    again = written(tmp_path, shown.stdout)
    assert load(again).options.name == "b"
    assert load(again).options.mobility.silence == {"phone-*": 3.0, "x": 0.5}
    assert json.loads(run.invoke(app, ["config", "show", "--json"]).stdout)["port"] == 7311


KEYS = st.sampled_from(["a", "b-c", '"d.e"', "'f'"])
VALUES = st.sampled_from(
    ["1", '"x # ["', "'y'", '"""\nk = 1\n"""', "'''\n[t]\n'''", "[\n 1, # one\n 2]", "{ x = 1 }", "[[1], [2]]", "true"]
)


@given(st.lists(st.tuples(st.sampled_from(["", "# c\n", "\n", "[[t]]\n"]), VALUES), max_size=8))
def test_lines_are_found_whatever_stands_between(parts: list[tuple[str, str]]) -> None:
    text, expected, table = "", {}, -1
    for number, (before, value) in enumerate(parts):
        text += before
        table += before == "[[t]]\n"
        key = f"key{number}"
        expected[("t", table, key) if table >= 0 else (key,)] = text.count("\n") + 1
        text += f"{key} = {value}\n"
    found = lines_of(text)
    assert {path: found.get(path) for path in expected} == expected


PUBLIC = "tidings-public:" + base64.b64encode(bytes(range(32))).decode()


def test_signers_are_read_and_written_down_again(tmp_path: Path) -> None:
    text = f"""[aggregation]
network = "plant"
[[aggregation.signer]]
identity = "acme"
keys = ["{PUBLIC}"]
[[aggregation.signer]]
identity = "operator"
keys = ["{PUBLIC}", "{PUBLIC}"]
tier = 3
tenants = ["ops"]
"""
    options = load(written(tmp_path, text)).options
    acme, operator = options.aggregation.signer
    assert (acme.identity, acme.keys, acme.tier, acme.tenants) == ("acme", (PUBLIC,), 2, ())
    assert (operator.identity, operator.tier, operator.tenants) == ("operator", 3, ("ops",))
    again = written(
        tmp_path,
        as_toml(
            described(Configuration(options))["aggregation"]
            and {"aggregation": described(Configuration(options))["aggregation"]}
        ),
    )
    assert load(again).options.aggregation == options.aggregation


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("keys = []", "line 3: aggregation.signer: entry 1: the identity is missing"),
        ('identity = "a"', "keys is not a list of texts; write the public keys"),
        ('identity = "a"\nkeys = []', "signer 'a' has 0 keys; give it 1 or 2"),
        (f'identity = "a"\nkeys = ["{PUBLIC}", "{PUBLIC}", "{PUBLIC}"]', "signer 'a' has 3 keys; give it 1 or 2"),
        ('identity = "a"\nkeys = ["secret"]', "'secret'... is not a public key; make one with"),
        (f'identity = "a"\nkeys = ["{PUBLIC}"]\ntier = 7', "tier 7 is none; write 1 for expressions"),
        (f'identity = "a"\nkeys = ["{PUBLIC}"]\nteir = 2', "'teir' is unknown; did you mean tier?"),
        (
            f'identity = "a"\nkeys = ["{PUBLIC}"]\n[[aggregation.signer]]\nidentity = "a"\nkeys = ["{PUBLIC}"]',
            "entry 2: 'a' appears twice; give it two keys in one entry",
        ),
    ],
)
def test_signers_that_cannot_be_used_are_refused_with_the_place(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(written(tmp_path, f'[aggregation]\nnetwork = "plant"\n[[aggregation.signer]]\n{entry}\n'))
    assert said in "\n".join(map(str, refused.value.problems))


def test_signers_need_a_network_with_a_name(tmp_path: Path) -> None:
    entry = f'[[aggregation.signer]]\nidentity = "a"\nkeys = ["{PUBLIC}"]\n'
    with pytest.raises(ConfigurationError, match="signatures are made for one network, and this one has no name"):
        load(written(tmp_path, entry))


# --- keys of borders --------------------------------------------------------------------------------------


def key_file(tmp_path: Path, name: str, byte: str = "k") -> Path:
    file = tmp_path / name
    file.write_text(secret_key(byte.encode() * 32) + "\n")
    file.chmod(0o600)
    return file


@pytest.mark.req("ARC-154")
def test_keys_of_borders_are_read_from_files(tmp_path: Path) -> None:
    for name, byte in (("new.key", "n"), ("old.key", "o")):
        key_file(tmp_path, name, byte)
    text = """
    [[border_key]]
    name = "vault"
    scopes = ["vault", "safe"]
    sign_file = "new.key"
    check_files = ["new.key", "old.key"]
    valid = "30s"
    """
    configuration = load(written(tmp_path, text))
    (key,) = configuration.options.border_key
    assert (key.name, key.scopes, key.valid) == ("vault", {"vault", "safe"}, 30_000_000)
    old = BorderKey("vault", ["vault"], sign=secret_key(b"o" * 32)).sign(b"content")
    assert old is not None
    assert key.vouches(b"content", old)
    assert key.sign(b"content") not in (None, old)
    assert not configuration.warnings
    shown = as_toml(described(configuration))
    assert "tidings-secret" not in shown
    assert 'name = "vault"' in shown


def test_what_is_wrong_with_a_key_is_said_without_showing_it(tmp_path: Path) -> None:
    (tmp_path / "bad.key").write_text("hunter2")
    key_file(tmp_path, "good.key")
    entry = '[[border_key]]\nname = "a"\nscopes = ["s"]\n'
    for text, expected in (
        (
            '[[border_key]]\nscopes = ["s"]\nsign_file = "good.key"\n',
            'line 1: border_key[1]: the name is missing; add name = "..."; scopes refer to it',
        ),
        (
            entry,
            "line 1: border_key[1]: the key 'a' neither signs nor checks; give it sign_file, check_files or both",
        ),
        (
            f'{entry}sign_file = "bad.key"\n',
            "line 1: border_key[1]: the key 'a' is no key: a line that begins with tidings-secret:, "
            "tidings-private: or tidings-public:, and 32 bytes in base64; make one with `tidings scope keygen`",
        ),
        (
            f'{entry}check_files = ["none.key"]\n',
            f"line 4: border_key[1].check_files: '{tmp_path}/none.key' cannot be read: No such file or directory; "
            "name a file that exists and that you may read",
        ),
        (
            f'{entry}check_files = ["good.key", "good.key", "good.key"]\n',
            "line 1: border_key[1]: the key 'a' has 3 keys that check; give it the one in use and the next one",
        ),
        (
            f'{entry}sign_file = "good.key"\n{entry}sign_file = "good.key"\n',
            "line 6: border_key[2].name: 'a' appears twice; give each key a name of its own; two keys of one "
            "name go into check_files",
        ),
        ("border_key = 7\n", "line 1: border_key: this is a list of tables; write [[border_key]] above each entry"),
        (
            '[[border_key]]\nname = "a"\nscopes = "s"\n',
            "line 3: border_key[1].scopes: 's' is a text; write a list of scopes, like [\"vault\"]",
        ),
    ):
        ((_, _, problem),) = complaints(tmp_path, text)
        assert problem == expected


def test_a_secret_that_everybody_can_read_is_warned_of_and_a_public_key_is_not(tmp_path: Path) -> None:
    secret = key_file(tmp_path, "vault.key")
    public = tmp_path / "vault.pub"
    public.write_text(keys_of(b"p" * 32).public)
    secret.chmod(0o644)
    public.chmod(0o644)
    text = '[[border_key]]\nname = "a"\nscopes = ["s"]\ncheck_files = ["vault.key", "vault.pub"]\n'
    (warning,) = load(written(tmp_path, text)).warnings
    assert str(warning) == f"line 1: border_key[1]: every user can read '{secret}'; chmod 600 {secret}"


def test_keygen_makes_a_secret_that_only_its_owner_reads_and_overwrites_none(tmp_path: Path) -> None:
    file = tmp_path / "vault.key"
    assert run.invoke(app, ["scope", "keygen", str(file)]).exit_code == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    BorderKey("vault", ["vault"], sign=file.read_text(), check=[file.read_text()])
    again = run.invoke(app, ["scope", "keygen", str(file)])
    assert again.exit_code != 0
    assert f"{file} exists, and a key is never overwritten; name another file" in again.output.replace("\n", " ")
