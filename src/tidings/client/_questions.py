"""Questions to the broker that it answers or refuses, each with an id; a new session is asked again."""

from __future__ import annotations

from collections.abc import Callable

from tidings.wire import Answer, Question

from ._pending import Pending


class Questions:
    """What the broker has been asked and has not answered yet."""

    def __init__(self, send: Callable[[Question], None], check: Callable[[], None]) -> None:
        """`check` raises the reason if no answer can come any more."""
        self._send = send
        self._check = check
        self._open: dict[str, Question] = {}
        self._count = 0
        self.answers: Pending[Answer] = Pending()

    async def ask(self, question: Callable[[str], Question]) -> Answer:
        """The answer; `question` makes the message of an id. A refusal is raised."""
        self._check()
        self._count += 1
        id = f"q{self._count}"
        self._open[id] = asked = question(id)
        try:
            self._send(asked)
            return await self.answers.wait(id)
        finally:
            del self._open[id]

    def tell(self, message: Question) -> None:
        """Tell the broker something whose answer nobody waits for."""
        self._send(message)

    def ask_again(self) -> None:
        """The session is new, and knows nothing of what was asked before."""
        for question in self._open.values():
            self._send(question)
