"""What the statements of a file claim, so that two of them cannot claim opposite things."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidings.model import Filter

from ._mistakes import Misfit, Source


class Ledger:
    """Claims: what is said of what, and where. A silent one takes every claim: later commands win over earlier ones."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent
        self._claims: dict[tuple[object, ...], tuple[object, Source, int]] = {}
        self.source = Source("")
        """The text that claims now."""

    def claim(self, key: tuple[object, ...], value: object, at: int, what: str) -> None:
        """Note a claim, or raise `Misfit` if another statement has claimed something else."""
        if self._silent:
            return
        known = self._claims.setdefault(key, (value, self.source, at))
        again = key[0] in ("definition", "instance") and known[1:] != (self.source, at)
        if known[0] != value or again:
            line, _ = known[1].place(known[2])
            place = f"line {line}" if known[1] is self.source else f"{known[1].name}:{line}"
            how = "another way" if known[0] != value else "already"
            raise Misfit(f"{what} was given {how} in {place}", at, "Keep one of the two statements.")

    def claim_interface(
        self, id: str, sides: Mapping[bool, Filter], at: int, *, whole: bool, passes: bool, members: bool = False
    ) -> None:
        """Note that filters are let pass, or not any longer; and with `whole` that nothing else is.

        With `members`, it is what the scope imposes on its members.
        """
        whose = f"the members of '{id or 'root'}'" if members else f"'{id}'"
        for output, filter in sides.items():
            side = "OUTPUT" if output else "INPUT"
            key = id, output, members
            if whole:
                self.claim(("interface", *key), filter, at, f"the {side} of {whose}")
            for one in filter.conjunctions:
                self.claim(("passes", *key, str(one)), passes, at, f"whether '{one}' is in the {side} of {whose}")

    def claim_roles(self, node: str, roles: Iterable[str], at: int, *, whole: bool, has: bool) -> None:
        """Note that a component has these roles, or has not; and with `whole` that it has no others."""
        listed = tuple(roles)
        if whole:
            self.claim(("roles", node), frozenset(listed), at, f"the roles of '{node}'")
        for role in listed:
            self.claim(("role", node, role), has, at, f"whether '{node}' has the role '{role}'")

    def claim_settings(self, node: str, kind: str, values: Mapping[str, object], at: int) -> None:
        """Note what attributes, or settings, are; None for one that is taken away."""
        for name, value in values.items():
            self.claim((kind, node, name), value, at, f"the {kind} '{name}' of '{node}'")
