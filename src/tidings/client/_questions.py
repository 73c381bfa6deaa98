"""Questions to the broker that it answers or refuses, each with an id; a new session is asked again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidings.model import TidingsError
from tidings.wire import Answer, Question


class _Asked(NamedTuple):
    question: Question
    answer: asyncio.Future[Answer]


class Questions:
    """What the broker has been asked and has not answered yet."""

    def __init__(self, send: Callable[[Question], None]) -> None:
        self._send = send
        self._asked: dict[str, _Asked] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Question]:
        return iter([asked.question for asked in self._asked.values()])

    async def ask(self, question: Callable[[str], Question]) -> Answer:
        """The answer; `question` makes the message of an id. A refusal is raised."""
        self._count += 1
        id = f"q{self._count}"
        asked = self._asked[id] = _Asked(question(id), asyncio.get_running_loop().create_future())
        self._send(asked.question)
        try:
            return await asked.answer
        finally:
            del self._asked[id]

    def answered(self, answer: Answer) -> None:
        """The broker has answered."""
        asked = self._asked.get(answer.id)
        if asked is not None and not asked.answer.done():
            asked.answer.set_result(answer)

    def refused(self, id: str, error: TidingsError) -> bool:
        """The broker has refused something; whether it was one of these."""
        asked = self._asked.get(id)
        if asked is not None and not asked.answer.done():
            asked.answer.set_exception(error)
        return asked is not None

    def end(self, error: TidingsError) -> None:
        """Nothing will be answered any more."""
        for id in self._asked:
            self.refused(id, error)
