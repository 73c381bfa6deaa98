"""Plans for rules: which scopes have which, from the start and while everything is under way.

What is drawn is kept as data besides its text, so that the judge need not read the scope language.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidings.model import Filter
from tidings.scopes import Define, Rule, SetRules
from tidings.scopes.language import check_written

from ._actions import Action, Verb
from ._scope_plan import NAMES
from ._workload import NUMBERS, random_filter

DEFINITION = "made"


class Drawn(NamedTuple):
    """What a rule of a run waits for, and does."""

    event: str
    """`out`: published in the scope; `in`: come from above; `con`; `join`; `leave`; `create`."""
    filter: Filter
    above: int | None
    """Its notification must have a larger `n`; None: any, or none."""
    mark: str
    """The attribute of the scope that is set to `n`, or to the name of the trigger; "": it does something else."""
    text: str
    deploys: str = ""

    @property
    def rule(self) -> Rule:
        """As it stands in the graph."""
        return Rule(self.text, self.deploys)


class RulePlan:
    """Draws the rules of one run."""

    def __init__(self, rng: random.Random, brokers: Sequence[str], authority: str) -> None:
        self._rng = rng
        self._brokers = brokers
        self._authority = authority
        self.drawn: dict[str, Drawn] = {}
        """By text."""

    def steps(self, length: int) -> Iterator[Action]:
        """Rules from the start on, and some that come or go later."""
        text = f"DEFINE SCOPE {DEFINITION} AS\n    INTERFACES INPUT(1), OUTPUT(1);"
        yield Action(0, Verb.CHANGE, (self._authority,), changes=(Define(DEFINITION, text),))
        for scope in NAMES[: self._rng.randint(1, 3)]:
            yield Action(0, Verb.CHANGE, (self._authority,), changes=(self._rules(scope),))
        for _ in range(self._rng.choice((0, 0, 1, 3))):
            at = self._rng.randrange(2, length + 2)
            changed = self._rules(self._rng.choice(NAMES[:3]), least=0)
            yield Action(at, Verb.CHANGE, (self._rng.choice(self._brokers),), changes=(changed,))

    def _rules(self, scope: str, least: int = 1) -> SetRules:
        drawn = {one.text: one for one in (self._rule() for _ in range(self._rng.randint(least, 3)))}
        self.drawn.update(drawn)
        return SetRules(scope, tuple(one.rule for one in drawn.values()))

    def _rule(self) -> Drawn:
        rng = self._rng
        event = rng.choice(("out", "out", "out", "in", "con", "join", "leave", "create"))
        filter, above = random_filter(rng), rng.choice((None, rng.randrange(NUMBERS)))
        mark = rng.choice(("r1", "r2", "r3"))
        body = f"'{str(filter).replace(chr(39), chr(39) * 2)}'"
        when = f" IF n.n > {above}" if above is not None else ""
        match event:
            case "out" | "in" | "con" | "create":
                side = "OUTPUT" if event in ("out", "create") else "INPUT"
                happened = f"{'con' if event == 'con' else 'pub'}(n: {side}({body})){when}"
                value = "n.n"
            case _:
                above, happened, value = None, f"{event}(*, self)", "trigger.name"
        action, deploys = f'ALTER SCOPE self SET "{mark}" = {value}', ""
        draw = rng.random()
        if event == "create":
            action, mark, deploys = "CREATE NOW INCLUDE COMPONENT", "", _DEPLOYS
        elif draw < 0.3:
            action, mark = f"ALTER SCOPE {rng.choice(('self', *NAMES[:2]))} ADD ALL FROM trigger", ""
        elif draw < 0.4:
            action, mark = "ALTER SCOPE self DEL ALL FROM trigger", ""
        drawn = Drawn(event, filter, above, mark, f"UPDATE ON {happened} DO {action}", deploys)
        written = _written(drawn)
        return drawn._replace(text=written.text, deploys=written.deploys)


_DEPLOYS = f'DEPLOY SCOPE {DEFINITION} SET arm = "s1" INTEGRATED_ROUTING;'


def _written(drawn: Drawn) -> Rule:
    """The rule as the language prints it."""
    from tidings.scopes.language import deploys_of, print_statement, update_of  # noqa: PLC0415
    from tidings.scopes.language._rules import rule_of  # noqa: PLC0415

    deploys = deploys_of(drawn.deploys) if drawn.deploys else None
    written = rule_of(update_of(drawn.text), deploys)
    if deploys is not None:
        assert written.deploys == print_statement(deploys)
    check_written(written)
    return written
