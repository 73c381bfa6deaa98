"""`client.admin` of a blocking client."""

from __future__ import annotations

from collections.abc import Callable

from tidings import client as asynchronous
from tidings.scopes import ScopeEnded

from ._thread import LoopThread, waiting_for


class Admin:
    """The scope graph, as far as this client may see and change it: `tidings.client.Admin`, but blocking."""

    def __init__(self, thread: LoopThread, twin: asynchronous.Admin) -> None:
        self._thread = thread
        self._twin = twin

    create_scope = waiting_for(asynchronous.Admin.create_scope)
    destroy_scope = waiting_for(asynchronous.Admin.destroy_scope)
    set_interface = waiting_for(asynchronous.Admin.set_interface)
    impose = waiting_for(asynchronous.Admin.impose)
    set_delivery = waiting_for(asynchronous.Admin.set_delivery)
    set_policy = waiting_for(asynchronous.Admin.set_policy)
    extend = waiting_for(asynchronous.Admin.extend)
    retract = waiting_for(asynchronous.Admin.retract)
    set_attributes = waiting_for(asynchronous.Admin.set_attributes)
    make_session = waiting_for(asynchronous.Admin.make_session)
    guard_border = waiting_for(asynchronous.Admin.guard_border)
    end_session = waiting_for(asynchronous.Admin.end_session)
    set_roles = waiting_for(asynchronous.Admin.set_roles)
    set_administration = waiting_for(asynchronous.Admin.set_administration)
    join = waiting_for(asynchronous.Admin.join)
    leave = waiting_for(asynchronous.Admin.leave)
    forget = waiting_for(asynchronous.Admin.forget)
    set_selective = waiting_for(asynchronous.Admin.set_selective)
    set_mapping = waiting_for(asynchronous.Admin.set_mapping)
    set_placement = waiting_for(asynchronous.Admin.set_placement)
    change = waiting_for(asynchronous.Admin.change)
    revision = waiting_for(asynchronous.Admin.revision)
    components = waiting_for(asynchronous.Admin.components)
    members = waiting_for(asynchronous.Admin.members)
    graph = waiting_for(asynchronous.Admin.graph)
    explain = waiting_for(asynchronous.Admin.explain)
    execute = waiting_for(asynchronous.Admin.execute)
    define = waiting_for(asynchronous.Admin.define)
    deploy = waiting_for(asynchronous.Admin.deploy)
    alter = waiting_for(asynchronous.Admin.alter)
    who_sees = waiting_for(asynchronous.Admin.who_sees)
    what_sees = waiting_for(asynchronous.Admin.what_sees)
    log = waiting_for(asynchronous.Admin.log)
    rules = waiting_for(asynchronous.Admin.rules)

    @property
    def on_scope_end(self) -> Callable[[ScopeEnded], None]:
        """Called in the background thread when a scope that this client is a member of has ended."""
        return self._twin.on_scope_end

    @on_scope_end.setter
    def on_scope_end(self, callback: Callable[[ScopeEnded], None]) -> None:
        self._twin.on_scope_end = callback
