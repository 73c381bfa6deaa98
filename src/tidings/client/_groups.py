"""`client.groups`: the groups of this client's identity and scopes, who is in them, and what waits for them."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from typing import NamedTuple

from tidings.groups import check_group
from tidings.model import TidingsError
from tidings.wire import (
    GROUP_LOOKS,
    GroupAnswer,
    GroupDeclined,
    GroupQuestion,
    GroupsShown,
    GroupStatus,
    ListGroups,
    ResetGroup,
    ShowGroup,
    WireError,
    pack,
    read_group_answer,
)

from ._address import ConnectionFailed
from ._arguments import timeout_of
from ._pending import Pending
from ._receipt import error_from

log = logging.getLogger("tidings.client")

GROUPS_TIMEOUT = 10.0
"""Seconds to wait for an answer about groups, unless the caller says otherwise."""


class GroupList(NamedTuple):
    """The groups that a client may see."""

    groups: tuple[GroupStatus, ...]
    """In the order of their owners and names."""
    left_out: int
    """How many more there are."""


class GroupReset(NamedTuple):
    """What a reset has done."""

    dropped: int
    """How many jobs were dropped that had come for the group; what had not come yet is not counted."""
    group: GroupStatus
    """The group after it."""


class Groups:
    """The groups of a network, as far as this client may see them.

    A client sees the groups of its own identity, and those of scopes that it is a member of; an administrator sees all.
    """

    def __init__(
        self, send: Callable[[bytes], None], check: Callable[[], None], features: Callable[[], tuple[str, ...] | None]
    ) -> None:
        """`check` raises the reason if no answer can come any more; `features` are those of the broker."""
        self._send = send
        self._check = check
        self._features = features
        self._numbers = itertools.count(1)
        self._answers: Pending[GroupsShown] = Pending()

    async def list(self, *, timeout: float | None = GROUPS_TIMEOUT) -> GroupList:
        """The groups that have members, and acknowledged ones that had some until lately."""
        shown = await self._ask(ListGroups, timeout)
        return GroupList(shown.groups, shown.left_out)

    async def show(
        self, group: str, *, owner: str | None = None, timeout: float | None = GROUPS_TIMEOUT
    ) -> GroupStatus:
        """One group with its members: `"billing"` of the client's identity, or `"market/billing"` of a scope.

        An administrator names another identity's as `owner`. A group that is not there, or that this client may not
        see, is a `TidingsError`.
        """
        check_group(group)
        shown = await self._ask(lambda id: ShowGroup(id, group, owner), timeout)
        return shown.groups[0]

    async def reset(
        self, group: str, *, owner: str | None = None, timeout: float | None = GROUPS_TIMEOUT
    ) -> GroupReset:
        """Drop what waits for an acknowledged group: it goes on with what is published from now on.

        What members hold they may finish; it is given to nobody else. This cannot be undone.
        """
        check_group(group)
        shown = await self._ask(lambda id: ResetGroup(id, group, owner), timeout)
        return GroupReset(shown.dropped, shown.groups[0])

    async def _ask(self, question: Callable[[str], GroupQuestion], timeout: float | None) -> GroupsShown:
        timeout_of(timeout)
        self._check()
        features = self._features()
        if features is not None and GROUP_LOOKS not in features:
            raise TidingsError("the broker cannot tell about groups; it runs an older version: upgrade it")
        id = f"g{next(self._numbers)}"
        try:
            async with asyncio.timeout(timeout):
                self._send(pack(question(id)))
                return await self._answers.wait(id)
        except TimeoutError:
            raise ConnectionFailed(
                f"the broker that decides for groups has not answered for {timeout:g} seconds; the network may be "
                "changing, or that broker be of an older version: try again, or upgrade it"
            ) from None

    # --- for the client -------------------------------------------------------------------------------

    def heard(self, body: bytes) -> None:
        """The broker has answered."""
        try:
            answer: GroupAnswer = read_group_answer(body)
        except WireError as error:
            log.warning("the broker has sent something that this client cannot read: %s", error)
            return
        if isinstance(answer, GroupDeclined):
            self._answers.refused(answer.id, error_from(answer.error, answer.reason))
        else:
            self._answers.came(answer.id, answer)

    def renewed(self) -> None:
        """The session is new, and its broker knows nothing of what was asked before."""
        self.failed(TidingsError("the connection was lost before the broker answered about groups; ask again"))

    def failed(self, error: TidingsError) -> None:
        """Nothing will come any more."""
        self._answers.failed(error)
