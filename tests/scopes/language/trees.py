"""Random syntax trees: every statement that the language can express, in the form in which `parse` gives it."""

from __future__ import annotations

import string

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from strategies import KINDS, scalars

from tidings.scopes.language import syntax as s
from tidings.scopes.language._tokens import KEYWORDS

names = st.sampled_from(["a", "b1", "has-temp-sensor", "_x", "Quote", "größe", "all", "n"])
odd = st.text(st.sampled_from(string.ascii_letters + " \"'-/@.\n{("), max_size=6)
clients = st.sampled_from(["@c1", "@sensor-2", "@a.b"])
paths_of_scopes = st.sampled_from(["market/floor", "a/b-c/7"])
values = scalars(KINDS) | st.lists(scalars(KINDS), max_size=3).map(tuple)
lines = st.sampled_from(["", "why", "it's -- so"])
comments = st.one_of(
    st.lists(lines, max_size=2).map(tuple), st.tuples(lines, st.just("\n")), st.tuples(lines, st.just("\n"), lines)
)
"""Lines of comment, with an empty line among them or behind them."""
notes = st.sampled_from(["", "", "a note"])

refs: SearchStrategy[s.Name | s.Id | s.Members] = st.recursive(
    st.one_of(names, clients, paths_of_scopes).map(s.Name) | odd.map(s.Id),
    lambda inner: inner.map(s.Members),
    max_leaves=3,
)
plain_refs = st.one_of(names, paths_of_scopes).map(s.Name) | odd.filter(lambda text: not text.startswith("@")).map(s.Id)
made = (names | paths_of_scopes | odd).filter(lambda text: bool(text) and not text.startswith("@"))
dotted = st.lists(names, min_size=1, max_size=3).map(tuple).map(s.Path)
paths = dotted | odd.map(s.Quoted)
ports = st.integers(1, 65_535)
arguments = st.one_of(
    st.builds(s.Argument, values | dotted | st.builds(s.Host, dotted.map(str), ports)),
    st.builds(s.Argument, values, dotted.map(str)),
)
calls = st.builds(s.Call, names, st.lists(arguments, max_size=3).map(tuple))
settings = st.builds(s.Setting, paths, values | dotted)
codes = st.one_of(dotted.map(str), odd.filter(bool))


def sides(conditions: SearchStrategy[object]) -> SearchStrategy[s.Side]:
    bodies = st.one_of(
        st.just(s.Everything()),
        st.just(s.Nothing()),
        odd.map(s.FilterText),
        st.lists(names, min_size=1, max_size=3).map(tuple).map(s.Types),
        st.lists(st.sampled_from(["/a", "/a/*", "/a/b-1/**", "/*"]), min_size=1, max_size=2).map(tuple).map(s.Topics),
        st.lists(conditions, min_size=1, max_size=2).map(tuple).map(s.Contents),
    )
    return st.builds(s.Side, st.booleans(), bodies)


def _tests(conditions: SearchStrategy[object]) -> SearchStrategy[object]:
    several = st.lists(conditions, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        several.map(s.And), several.map(s.Or), conditions.map(s.Not), sides(conditions).map(s.InterfaceTest)
    )


conditions: SearchStrategy[object] = st.recursive(
    st.one_of(
        (names | odd).map(s.RoleTest),
        st.builds(s.Comparison, paths, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), values | dotted),
        st.builds(s.Likeness, paths, st.sampled_from(["LIKE", "MATCHES"]), odd),
        calls,
    ),
    _tests,
    max_leaves=5,
)
interfaces = sides(conditions)
qualifiers = st.one_of(
    st.just(s.All()),
    st.builds(s.Top, dotted.map(str), st.integers(1, 99), st.booleans()),
    st.builds(
        lambda least, more: s.Cardinality(least, None if more is None or least is None else least + more),
        st.none() | st.integers(0, 9),
        st.none() | st.integers(0, 9),
    ),
    calls,
)
clause_interfaces = st.lists(interfaces, min_size=1, max_size=2).map(tuple).map(s.Interfaces)
clause_settings = st.lists(settings, min_size=1, max_size=2).map(tuple).map(s.Settings)
properties = st.one_of(
    clause_interfaces,
    clause_settings,
    st.builds(s.MapClause, st.booleans(), st.lists(settings | calls, max_size=2).map(tuple)),
    st.builds(s.MapClause, st.booleans(), code=codes),
    st.builds(s.PolicyClause, st.sampled_from(s.PolicyKind), codes, st.lists(settings, max_size=2).map(tuple)),
    codes.map(s.CodeClause),
)
blocks = st.lists(properties, max_size=2).map(tuple)


def selections(**more: SearchStrategy[object]) -> SearchStrategy[s.Selection]:
    return st.builds(
        s.Selection,
        st.none() | st.lists(refs, min_size=1, max_size=3).map(tuple),
        st.none() | conditions,
        qualifiers,
        st.none() | blocks,
        st.just("") | names,
        st.booleans(),
        **more,
    )


def plain_features() -> SearchStrategy[object]:
    return st.one_of(
        properties,
        st.lists(names | odd, min_size=1, max_size=2).map(tuple).map(s.Roles),
        st.builds(s.Block, st.just("") | names, blocks),
    )


def alters(features: SearchStrategy[object], *, selects: int = 0, says: int = 0) -> SearchStrategy[s.AlterScope]:
    return st.builds(
        s.AlterScope,
        refs,
        st.sampled_from(s.Change),
        st.lists(selections(), min_size=selects, max_size=2).map(tuple),
        st.lists(features, min_size=says, max_size=2).map(tuple),
        st.sampled_from(s.Kind),
    )


events = st.one_of(
    st.builds(
        lambda name, bound, side: s.Event(name, (s.Watched(bound, side),)),
        st.sampled_from(["pub", "con"]),
        names,
        interfaces,
    ),
    st.builds(lambda name, side: s.Event(name, (side,)), st.sampled_from(["sub", "unsub", "adv", "unadv"]), interfaces),
    st.builds(
        lambda name, one, two: s.Event(name, (one, two)),
        st.sampled_from(["join", "leave"]),
        names.map(s.Name) | st.just(s.Anyone()),
        names.map(s.Name) | st.just(s.Anyone()),
    ),
    st.builds(s.Event, st.just("timer"), st.lists(values, min_size=1, max_size=2).map(tuple)),
)


def updates(nested: SearchStrategy[object]) -> SearchStrategy[s.Update]:
    changing = alters(nested, selects=1) | alters(nested, says=1)
    actions = changing | st.builds(s.Create, st.none() | st.sampled_from(["trigger", "other"]))
    return st.builds(s.Update, events, st.lists(actions, min_size=1, max_size=2).map(tuple), st.none() | conditions)


features: SearchStrategy[object] = plain_features() | updates(plain_features() | updates(plain_features()))


def commented(clauses: SearchStrategy[object]) -> SearchStrategy[object]:
    import dataclasses

    return st.builds(
        lambda clause, before, note: dataclasses.replace(clause, comments=before, note=note),  # type: ignore[type-var]
        clauses,
        comments,
        notes,
    )


architectures = st.one_of(
    st.builds(s.Architecture, st.sampled_from(["INTEGRATED_ROUTING", "COLLAPSED", "SCOPE_ADDRESS", "mine"])),
    st.builds(
        s.Architecture,
        st.sampled_from(["INTEGRATED_ROUTING", "mine"]),
        st.lists(arguments, min_size=1, max_size=2).map(tuple),
    ),
    arguments.map(lambda one: s.Architecture("BROKERSCOPE", (one,))),
)
statements = commented(
    st.one_of(
        st.builds(
            s.DefineScope,
            made,
            st.lists(commented(selections()), max_size=3).map(tuple),
            st.lists(commented(features), max_size=3).map(tuple),
        ),
        st.builds(
            s.DeployScope,
            plain_refs,
            st.just("") | made,
            st.lists(commented(selections()), max_size=2).map(tuple),
            st.lists(commented(features), max_size=2).map(tuple),
            commented(architectures),
        ),
        st.builds(
            s.DeployScope,
            st.none(),
            made,
            st.lists(commented(selections()), max_size=2).map(tuple),
            st.lists(commented(features), max_size=2).map(tuple),
            commented(architectures),
        ),
        st.builds(
            s.AlterScope,
            refs,
            st.sampled_from(s.Change),
            st.lists(commented(selections()), max_size=2).map(tuple),
            st.lists(commented(features), max_size=2).map(tuple),
            st.sampled_from(s.Kind),
        ),
    )
)
endings = st.lists(lines, max_size=2).map(tuple)
scripts = st.builds(s.Script, st.lists(statements, max_size=3).map(tuple), endings)

assert not KEYWORDS & {"all", "n"}, "keywords are upper case"
