"""Bad input: each mistake has a message that says where it is and what would be right."""

from __future__ import annotations

import time

import pytest
from scopes.language.script_world import carried_out, compiled, connected, refusal

from tidings.model import NOTHING, UnknownName
from tidings.scopes.language import ScriptError, Source, check_script, parse
from tidings.scopes.language._maps import EXAMPLES

R = "INTEGRATED_ROUTING"


def message(problem: str, line: str, column: int, remedy: str, number: int = 1) -> str:
    return f"t.scopes:{number}:{column}: {problem}\n    {line}\n    {' ' * (column - 1)}^\n  {remedy}"


@pytest.mark.req("VIS-901")
@pytest.mark.parametrize(
    ("text", "column", "problem", "remedy"),
    [
        ("define scope x as", 1, "no statement begins with define", "Keywords are upper case: write DEFINE."),
        ("CREATE x", 1, "no statement begins with CREATE", "It begins with DEFINE, DEPLOY or ALTER."),
        ("DEFINE SCOPE x as ALL FROM y", 16, "as is a name here", "Keywords are upper case: write AS."),
        ("DEFINE SCOPE ALL AS", 14, "ALL is a keyword", 'Write a thing of that name in quotes: "ALL".'),
        ("DEFINE SCOPE @x AS", 14, "@x cannot name a definition", "Write a name without @."),
        (
            "DEFINE SCOPE x AS ALL FROM @ann@home",
            32,
            "@home does not fit behind @ann",
            'Put the name of a client with such characters in quotes: "@ann@home".',
        ),
        (
            "DEFINE SCOPE x AS ALL FROM @ann:home",
            33,
            "home does not fit behind @ann",
            'Put the name of a client with such characters in quotes: "@ann:home".',
        ),
        (
            "DEPLOY MEMBERS(x) " + R,
            8,
            "DEPLOY takes one definition, not MEMBERS(...)",
            "Deploy one definition after the other.",
        ),
        (
            "DEFINE SCOPE x AS SET a = 1 ALL FROM y",
            29,
            "a selection stands behind a feature",
            "Write all selections first, then INTERFACES, SET and the others.",
        ),
        ("DEFINE SCOPE x AS [3..1] FROM y", 19, "[3..1] asks for at least 3 and at most 1", "Write [1..3]."),
        (
            "DEFINE SCOPE x AS TOP(a, 0) FROM y",
            26,
            "TOP takes at least 1, not 0",
            "Leave the selection out to pick nothing.",
        ),
        ("DEFINE SCOPE x AS INTERFACES INPUT(2)", 36, "2 is no interface", "Write 0 for nothing, or 1 for everything."),
        (
            """DEFINE SCOPE x AS INTERFACES INPUT("symbol IN ('A')")""",
            36,
            """"symbol IN ('A')" is a text""",
            "Write a filter in single quotes, 'symbol IN (''A'')', and a type without any.",
        ),
        (
            "DEFINE SCOPE x AS INTERFACES OUTPUT(price BETWEEN 1 AND 5)",
            43,
            "BETWEEN is a word of filters",
            "Put a filter with it in single quotes: 'price BETWEEN 1 AND 5'.",
        ),
        (
            "DEFINE SCOPE x AS INTERFACES INPUT(/a/**/b)",
            36,
            "/a/**/b: ** stands at the end only",
            "Write * for one level.",
        ),
        ("DEFINE SCOPE x AS SET a == 1", 25, "== has no meaning here", "Write = to compare."),
        (
            "DEFINE SCOPE x AS SET a = 'b",
            27,
            "this quote is never closed",
            "Close the string with ', and double a ' inside it: 'it''s'.",
        ),
        ("DEFINE SCOPE x AS # why", 19, "# has no meaning here", "A comment begins with --."),
        ("DEFINE SCOPE x AS ALL FORM y", 23, "FORM does not fit here", "Expected FROM."),
        (
            "ALTER SCOPE x ADD ALL FROM",
            27,
            "the statement ends too early",
            "Expected *, MEMBERS, a client like @sensor1, a name or a string.",
        ),
        (
            "DEFINE SCOPE x AS UPDATE ON pub(OUTPUT(y)) DO CREATE NOW",
            29,
            "this is not how the event pub is written",
            "Write pub(n: OUTPUT(x)) or con(n: INPUT(x)); sub or unsub(INPUT(x)); adv or unadv(OUTPUT(x)); "
            "join(member, scope) or leave(*, scope); other events take values.",
        ),
        (
            "DEFINE SCOPE x AS UPDATE ON pub(n: OUTPUT(y)) DO ALTER SCOPE self ADD",
            50,
            "an action must change something",
            "Write what it adds, takes away or sets: ADD ALL FROM trigger.",
        ),
        (
            "DEFINE SCOPE x AS UPDATE ON pub(n: OUTPUT(y)) DO (ALTER SCOPE self)",
            51,
            "an action must change something",
            "Write what it adds, takes away or sets: ADD ALL FROM trigger.",
        ),
        (
            "DEFINE SCOPE x AS UPDATE ON pub(n: OUTPUT(y)) IF n.a > DO CREATE NOW",
            56,
            "a value is missing after >",
            "Write a number, a text in quotes, or an attribute.",
        ),
        (
            "DEPLOY AS x ALL FROM y WHERE a = INTEGRATED_ROUTING",
            34,
            "a value is missing after =",
            "Write a number, a text in quotes, or an attribute.",
        ),
        ("DEFINE SCOPE x AS SET a = ALL", 27, "ALL is a keyword", 'Write a thing of that name in quotes: "ALL".'),
        (
            "DEFINE SCOPE x AS FROM y WHERE c MATCHES '('",
            32,
            "this is no regular expression: missing ), unterminated subpattern at position 0",
            "Correct it, or write LIKE.",
        ),
    ],
)
def test_a_mistake_points_at_its_place_and_says_what_is_right(
    text: str, column: int, problem: str, remedy: str
) -> None:
    assert refusal(text) == message(problem, text, column, remedy)


def test_a_mistake_in_a_filter_points_into_the_filter() -> None:
    text = "DEFINE SCOPE x AS INTERFACES OUTPUT('a = ''b'' AND price >')"
    assert refusal(text) == message(
        "a value is missing after >", text, text.rindex("'") + 1, "Write a number, or text in single quotes."
    )


@pytest.mark.req("VIS-901")
def test_several_mistakes_are_told_at_once_each_with_its_line() -> None:
    text = (
        "DEFINE SCOPE a AS ALL FROM x WHERE;\n"
        "DEPLOY nothing INTEGRATED_ROUTING;\n"
        "DEFINE SCOPE b AS [3..1] FROM y;\n"
        f"DEPLOY AS good {R};\n"
        f"DEPLOY AS c SUPERSCOPE FROM elsewhere {R};\n"
    )
    with pytest.raises(ScriptError) as caught:
        carried_out(text)
    assert [one.line for one in caught.value.mistakes] == [1, 3, 2, 5]
    assert [one.kind for one in caught.value.mistakes][2:] == [UnknownName, UnknownName]


def test_what_a_wrong_statement_would_have_made_is_not_missed_a_second_time() -> None:
    text = f"DEPLOY AS a SUPERSCOPE FROM nowhere {R}; DEPLOY AS b SUPERSCOPE FROM a {R}; ALTER SCOPE a SET x = 1"
    assert refusal(text).count("^") == 1


def test_a_cycle_is_refused_with_the_way_that_it_closes() -> None:
    text = f"DEPLOY AS a {R}; DEPLOY AS b SUPERSCOPE FROM a {R}; ALTER SCOPE a ADD SUPERSCOPE FROM b"
    line = text
    assert refusal(text) == (
        f"t.scopes:1:{text.rindex('SUPERSCOPE') + 1}: 'a' cannot join 'b', which is inside it already: 'b' in 'a'\n"
        f"    {line[-100:]}\n    {' ' * (text.rindex('SUPERSCOPE') - (len(text) - 100))}^\n  Leave one of these."
    )
    with pytest.raises(ScriptError, match="which is inside it already"):
        check_script([Source(text)])


def test_a_cardinality_that_fails_says_what_is_there() -> None:
    text = f"DEPLOY AS a [2..] FROM MEMBERS(world) {R}"
    assert refusal(text, clients=connected(only={})) == message(
        "at least 2 components are needed here, and 1 fit: @only",
        text,
        13,
        "Ask for fewer, or provide what the selection demands.",
    )


def test_a_condition_that_nothing_can_satisfy_is_refused() -> None:
    text = "DEFINE SCOPE x AS FROM y WHERE c = 5 AND c <> 5"
    assert refusal(text) == message(
        "nothing can satisfy this WHERE", text, 32, "Its parts exclude each other: drop one."
    )


def test_two_statements_of_a_file_that_contradict_are_refused_and_two_commands_are_not() -> None:
    for first, second, what in (
        (f"DEPLOY AS a INTERFACES INPUT(x) {R}", "ALTER SCOPE a INTERFACES INPUT(y)", "the INPUT of 'a'"),
        (f"DEPLOY AS a SET k = 1 {R}", "ALTER SCOPE a SET k = 2", "the attribute 'k' of 'a'"),
        (f"DEPLOY AS a FROM @x {R}", "ALTER SCOPE a DEL FROM @x", "the membership of '@x' in 'a'"),
        (f"DEPLOY AS a SET ordered = TRUE {R}", "ALTER SCOPE a SET ordered = FALSE", "the setting 'ordered' of 'a'"),
        (f"DEPLOY AS a ROLES r {R}", "ALTER SCOPE a DEL ROLES r", "whether 'a' has the role 'r'"),
        (f"DEPLOY AS a ROLES r {R}", "ALTER SCOPE a ROLES s", "the roles of 'a'"),
        (
            f"DEPLOY AS a INTERFACES INPUT(x, y) {R}",
            "ALTER SCOPE a DEL INTERFACES INPUT(y)",
            "whether 'type = 'y'' is in the INPUT of 'a'",
        ),
        (
            f"DEPLOY AS a FROM @x : {{ INTERFACES INPUT(0) }} {R}",
            "ALTER SCOPE a ADD FROM @x : { INTERFACES OUTPUT(0) }",
            "the interface of '@x' in 'a'",
        ),
        (
            f"DEPLOY AS a MEMBERS : {{ INTERFACES INPUT(x) }} {R}",
            "ALTER SCOPE a MEMBERS : { INTERFACES INPUT(y) }",
            "the INPUT of the members of 'a'",
        ),
        (
            f"DEPLOY AS a MEMBERS : {{ INTERFACES INPUT(x, y) }} {R}",
            "ALTER SCOPE a DEL MEMBERS : { INTERFACES INPUT(y) }",
            "whether 'type = 'y'' is in the INPUT of the members of 'a'",
        ),
    ):
        at = 1 if "FROM @x" not in second else second.index("FROM") + 1
        assert refusal(f"{first};\n{second}") == message(
            f"{what} was given another way in line 1", second, at, "Keep one of the two statements.", 2
        )
        carried_out(f"{first};\n{second}", command=True)
    assert refusal("DEFINE SCOPE a AS;\nDEFINE SCOPE a AS FROM @x") == message(
        "the definition of 'a' was given another way in line 1",
        "DEFINE SCOPE a AS FROM @x",
        1,
        "Keep one of the two statements.",
        2,
    )


@pytest.mark.parametrize(
    ("text", "problem", "column", "remedy"),
    [
        (
            "(" * 10_000_000,
            "the text has 10,000,000 characters, at most 1,000,000 are read",
            1,
            "Divide it into several files.",
        ),
        *(
            (text, "more than 64 brackets are open here", column, "Nest less deeply.")
            for text, column in (
                ("DEFINE SCOPE a AS FROM " + "MEMBERS(" * 100, 543),
                ("DEFINE SCOPE a AS FROM x WHERE " + "NOT " * 100 + "a = 1", 288),
                ("DEFINE SCOPE a AS SET x = " + "[" * 100_000, 91),
            )
        ),
    ],
)
def test_size_and_nesting_have_limits(text: str, problem: str, column: int, remedy: str) -> None:
    with pytest.raises(ScriptError) as caught:
        parse(text, "t.scopes")
    start = max(0, min(column - 51, len(text) - 100))
    shown, before = text[start : start + 100], " " * (column - 1 - start)
    assert str(caught.value) == f"t.scopes:1:{column}: {problem}\n    {shown}\n    {before}^\n  {remedy}"


@pytest.mark.parametrize(
    ("first", "last", "at", "problem", "remedy"),
    [
        (
            "",
            f"DEPLOY AS a SUPERSCOPE FROM elsewhere {R}",
            "elsewhere",
            "no scope or client 'elsewhere' can be seen here",
            "Write @elsewhere for a client that is not connected yet. There are no scopes yet.",
        ),
        (
            f"DEPLOY AS x {R}; DEPLOY AS x/in SUPERSCOPE FROM x {R}; DEPLOY AS y {R}; "
            f"DEPLOY AS y/in SUPERSCOPE FROM y {R}; DEPLOY AS z SUPERSCOPE FROM x, y {R};\n",
            "ALTER SCOPE z ADD FROM in",
            "in",
            "'in' may be 'x/in' or 'y/in'",
            "Write the one you mean as a string.",
        ),
        (
            f"DEPLOY AS b {R};\n",
            f"DEPLOY AS a SUPERSCOPE FROM b INTERFACES INPUT(x) MAP OUTWARD {{ Drop(['k']) }} {R}",
            "MAP",
            'Drop(names = ["k"]) cannot be inverted, so the INWARD mapping cannot be derived',
            "Write a MAP INWARD, or block that direction with INPUT(0).",
        ),
        (
            "",
            f"DEPLOY AS a POLICY DELIVERY one_of {R}",
            "POLICY",
            "no policy 'one_of' is registered here",
            "A definition may hold it; to deploy it, call register_policy, or write one of acknowledged, chain, "
            "credentials, delay, full, key-dispatch, one-of-n, parameters, producer, rate-limit, release, single, "
            "state, top-k, window.",
        ),
        (
            f"DEPLOY AS b {R};\n",
            f"DEPLOY AS a SUPERSCOPE FROM b MAP OUTWARD {{ Named('nobody') }} {R}",
            "DEPLOY",
            "no mapping 'nobody' is registered here",
            "Call register_mapping in this process.",
        ),
        (
            "",
            f"DEPLOY AS a FROM MEMBERS(world) WHERE near(5) {R}",
            "near",
            "no test 'near' is known",
            "Known tests: within.",
        ),
    ],
)
def test_what_a_script_takes_for_granted_is_refused_if_it_is_not_there(
    first: str, last: str, at: str, problem: str, remedy: str
) -> None:
    number = 1 + first.count("\n")
    assert refusal(first + last) == message(problem, last, last.index(at) + 1, remedy, number)


def test_each_wrong_setting_of_a_statement_is_a_mistake_of_its_own() -> None:
    text = f"DEPLOY AS a SET hidden = 3, k = 1, duplicates = 'no' {R}"
    first = message("hidden is TRUE or FALSE, not 3", text, 17, "Write hidden = TRUE.")
    second = message(
        'there is no rule "no" for duplicates',
        text,
        text.index("duplicates") + 1,
        "Write one of default, per_path, event, suppress.",
    )
    assert refusal(text) == f"{first}\n{second}"


def test_many_mistakes_are_cut() -> None:
    found = refusal("".join(f"DEPLOY x{number} INTEGRATED_ROUTING;\n" for number in range(70)))
    assert found.endswith("and 20 more mistakes; correct these first")


def test_a_check_without_a_broker_says_what_can_be_known() -> None:
    unknown = f"DEPLOY there AS a SUPERSCOPE FROM elsewhere [5..] FROM MEMBERS(world), somebody WHERE x = 1 {R}"
    assert check_script([Source(f"{unknown}; ALTER SCOPE other ADD FROM x")]).statements == 2
    for wrong, problem in (
        (f"DEFINE SCOPE a AS INTERFACES INPUT('x >'); {unknown}", "x >"),
        (f"DEPLOY AS a {R}; DEPLOY AS a {R}", "the scope 'a' was given already in line 1"),
        ("DEFINE SCOPE a AS FROM x WHERE near(5)", "no test 'near' is known"),
        ("DEPLOY AS a SLOW", "no architecture SLOW carries scopes in this network"),
        (
            f"DEPLOY AS a FROM @b INTERFACES OUTPUT(1), INPUT(1) MAP OUTWARD {{ Drop(['a']) }} SUPERSCOPE FROM c {R}",
            "behind a feature",
        ),
    ):
        with pytest.raises(ScriptError) as caught:
            check_script([Source(wrong)])
        assert problem in str(caught.value)


@pytest.mark.parametrize("value", ['["plaintextsecret"]', '"secret"', "[5]"])
def test_a_secret_in_place_of_its_digest_is_refused(value: str) -> None:
    for text in (f"DEPLOY AS a SET admission = {value} {R}", f"DEFINE SCOPE a AS SET admission = {value}"):
        found = refusal(text)
        assert "admission holds digests, and this is none" in found or "admission is a list of texts, not [5]" in found


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("hidden = 3", "hidden is TRUE or FALSE, not 3"),
        ("duplicates = 'no'", 'there is no rule "no" for duplicates'),
        ("definition = 5", "definition is the name of one, not 5"),
    ],
)
def test_a_wrong_setting_is_named_with_its_value(setting: str, problem: str) -> None:
    assert problem in refusal(f"DEPLOY AS a SET {setting} {R}")


def test_a_selection_without_a_block_takes_no_restriction_back() -> None:
    for selections in ("FROM @x : { INTERFACES INPUT(0) } FROM @x", "FROM @x FROM @x : { INTERFACES INPUT(0) }"):
        graph = carried_out(f"DEPLOY AS a {selections} {R}")
        assert graph.membership("@x", "a").imposed.input == NOTHING
    text = f"DEPLOY AS a FROM @x : {{ INTERFACES INPUT(0) }} FROM @x : {{ INTERFACES INPUT(y) }} {R}"
    assert "the interface of '@x' in 'a' was given another way in line 1" in refusal(text)


def test_the_same_statement_given_twice_is_said_to_be() -> None:
    text = f"DEFINE SCOPE d AS FROM @x; DEPLOY d AS a {R};"
    with pytest.raises(ScriptError) as caught:
        check_script([Source(text, "a.scopes"), Source(text, "a.scopes")])
    problems = [one.problem for one in caught.value.mistakes]
    assert problems == [
        "the definition of 'd' was given already in a.scopes:1",
        "the scope 'a' was given already in a.scopes:1",
    ]


@pytest.mark.parametrize("word", ["AND", "OR"])
def test_reading_takes_time_in_proportion_to_the_text(word: str) -> None:
    def taken(terms: int) -> float:
        begun = time.process_time()
        parse("DEFINE SCOPE x AS FROM y WHERE " + f" {word} ".join(["a = 1"] * terms))
        return time.process_time() - begun

    taken(100)  # the tables are made once
    assert taken(32_000) < 24 * taken(4_000), "eight times the text; squared it would be 64 times"


def test_a_condition_may_be_longer_than_a_filter_and_a_filter_may_not() -> None:
    many = " AND ".join(f"a{number} > 1" for number in range(1_100))
    assert check_script([Source(f"DEPLOY AS x FROM y WHERE {many} {R}")]).statements == 1
    types = ", ".join(f"T{number}" for number in range(300))
    assert refusal(f"DEFINE SCOPE x AS INTERFACES INPUT({types})").startswith("t.scopes:1:1: the filter expands to 257")


@pytest.mark.parametrize(
    ("step", "problem", "remedy"),
    [
        ('Drop("z")', 'Drop: names: "z" is a text, not a list', 'Write it like Drop(["a", "b"]).'),
        ('Rename("a")', "Rename: 'new' is missing", 'Write it like Rename("old", "new").'),
        ("Convert()", "Convert: 'name' is missing", 'Write it like Convert("usd", 0.92, to = "eur").'),
        ('Drop(LOCATION "/a")', "Drop: names: ", 'Write it like Drop(["a", "b"]).'),
    ],
)
def test_a_step_with_wrong_arguments_is_shown_as_it_is_written(step: str, problem: str, remedy: str) -> None:
    found = refusal(f"DEFINE SCOPE x AS MAP OUTWARD {{ {step} }}")
    assert problem in found
    assert found.endswith(remedy)


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_in_remedies_are_right(example: str) -> None:
    assert check_script([Source(f"DEFINE SCOPE x AS MAP OUTWARD {{ {example} }}")]).statements == 1


def test_only_the_digits_that_people_agree_on_make_a_number() -> None:
    text = "DEFINE SCOPE x AS SET a = \u0663"
    assert refusal(text) == message(
        "\u0663 is no digit of the language", text, 27, "Write numbers with the digits 0 to 9."
    )


def test_a_client_has_a_name_that_can_be_printed() -> None:
    assert "'@a\\x00' cannot name a client" in refusal(f'DEPLOY AS x FROM "@a\0" {R}')


def test_a_client_may_have_a_name_of_several_parts() -> None:
    graph = carried_out(f"DEPLOY AS a FROM @ann/phone, @ann/tab-2.x {R}")
    assert set(graph.members("a")) == {"@ann/phone", "@ann/tab-2.x"}


@pytest.mark.parametrize(
    ("name", "feature", "problem", "remedy"),
    [
        (
            "d",
            "ROLES " + "r" * 8192,
            "the definition 'd' has 8,221 characters, at most 8,192 are allowed",
            "Divide it.",
        ),
        (
            '"' + "d" * 300 + '"',
            "ROLES r",
            f"'{'d' * 60}' cannot name a definition: up to 256 printable characters, without @",
            "Choose another.",
        ),
    ],
)
def test_a_check_refuses_a_definition_that_a_plan_would_refuse(
    name: str, feature: str, problem: str, remedy: str
) -> None:
    text = f"DEFINE SCOPE {name} AS {feature}"
    with pytest.raises(ScriptError) as checked:
        check_script([Source(text, "t.scopes")])
    assert str(checked.value) == message(problem, text[:100], 1, remedy) == refusal(text)


def test_whatever_picks_nothing_is_told_once() -> None:
    text = (
        "DEFINE SCOPE d AS m: ALL FROM MEMBERS(world) WHERE x = 1;\n"
        f"DEPLOY d AS e ALL FROM MEMBERS(hall) {R};\n"
        f"DEPLOY AS f ALL FROM MEMBERS(world) WHERE x = 1 {R};\n"
        "ALTER SCOPE f TOP(z, 2) FROM MEMBERS(world);\n"
        "ALTER SCOPE f [0..0] FROM MEMBERS(world);"
    )
    done = compiled(text, carried_out(f"DEPLOY AS hall {R}"))
    assert done.warnings == (
        "t.scopes:2:15: nothing is picked for 'e' by ALL FROM MEMBERS(hall)",
        "t.scopes:3:13: nothing is picked for 'f' by ALL FROM MEMBERS(world) WHERE x = 1",
        "t.scopes:4:15: nothing is picked for 'f' by TOP(z, 2) FROM MEMBERS(world)",
    )
    assert [str(one) for one in done.open] == ["'e' still looks for a member: m: ALL FROM MEMBERS(world) WHERE x = 1"]
    assert check_script([Source(text)]).warnings == ()


def test_a_function_that_nobody_has_registered_is_refused_with_the_remedy() -> None:
    text = f'DEPLOY AS w {R};\nDEPLOY AS x SUPERSCOPE FROM w MAP OUTWARD "nobody.knows" {R}'
    assert refusal(text) == message(
        "no function 'nobody.knows' is registered here",
        text.split("\n")[1],
        31,
        "Call register_mapping in this process and at the brokers, or write the steps in braces.",
        2,
    )
