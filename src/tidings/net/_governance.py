"""Governance: which broker orders the scope graph, and whom this broker may be linked with because of it.

A network has one authority, and all its brokers name it in their configuration. If two brokers judged visibility by
different graphs, one would show what the other hides. So brokers that name different authorities are not linked, and
the one that was dialled says why. A network that names none has no scopes, and is linked as it always was.

A broker that has no neighbours to dial is its own authority without being told, so that scopes work on one machine at
once. Another broker without an authority may still connect to it as long as there are no scopes; while it is linked,
none can be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidings.scopes import Scopes

from ._options import Options

if TYPE_CHECKING:
    from ._host import Host


class Governance:
    """The scope service of one server, and the brokers it may be shared with."""

    def __init__(self, options: Options, host: Host) -> None:
        self._name = options.name
        self._host = host
        self._told = options.authority is not None
        own = "" if options.neighbours else options.name
        self.scopes = Scopes(options.authority or own, hook=options.admission)
        self.scopes.frozen = options.frozen_scopes
        if not self._told:
            self.scopes.objection = self._objection

    @property
    def declared(self) -> str:
        """Who orders changes of the scope graph here, as it is told to neighbours; "": nobody."""
        return self.scopes.authority_name

    @property
    def absence(self) -> str:
        """That the authority has never been heard of, in words; "": it has, or it is this broker, or there is none."""
        if not self.scopes.is_unheard_of:
            return ""
        return (
            f"broker '{self._name}' has never heard of '{self.scopes.authority_name}', the authority of its scope graph"
        )

    def objection_to(self, broker: str, theirs: str) -> str:
        """Why a broker that names this authority must not be linked; "": it may be."""
        mine = self.scopes.authority_name
        if theirs == mine or (not theirs and not self._told and not self.scopes.graph.version):
            return ""
        if not theirs:
            return (
                f"'{mine}' orders the scope graph of '{self._name}', but '{broker}' names no authority; "
                f"start '{broker}' with --authority {mine}, or set `authority = \"{mine}\"` in its configuration"
            )
        return (
            f"'{theirs}' orders the scope graph of '{broker}', and "
            + (f"'{mine}' that of '{self._name}'" if mine else f"'{self._name}' names no authority")
            + f"; name the same in both: start '{self._name}' with --authority {theirs}, for example, or set "
            f'`authority = "{theirs}"` in its configuration'
        )

    def _objection(self) -> str:
        """While brokers are linked that name no authority, there can be no scopes."""
        strangers = sorted(peer.link.name for peer in self._host.peers if peer.link.is_broker and not peer.authority)
        if not strangers:
            return ""
        names = ", ".join(f"'{name}'" for name in strangers[:5])
        return (
            f"broker '{self._name}' is linked with {names}, and nothing says which of them orders the scope graph; "
            f'start all of them with --authority {self._name}, or set `authority = "{self._name}"` in their '
            "configurations"
        )
