"""A signing service that knows nothing of sessions: it signs what it hears, and answers who asks.

    python signing_service.py [URL]

`document` notifications are signed and published again, as `signed`. In a session scope, the signed document stays in
the session of the document. A request is answered to the one who asked.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sys

import tidings

KEY = b"a key that only the service has"


def signature(text: str) -> str:
    """Return what proves that the service has seen this text."""
    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()[:16]


async def start(client: tidings.Client) -> asyncio.Task[None]:
    """Sign every document that is published, and every text that somebody asks about; return when both are heard."""
    documents = await client.subscribe("type = 'document' AND EXISTS(text)")
    requests = await client.subscribe("type = 'sign' AND EXISTS(text)")

    async def serve() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(_publish_signed(client, documents))
            tasks.create_task(_reply_signed(requests))

    return asyncio.create_task(serve())


async def _publish_signed(client: tidings.Client, documents: tidings.Subscription) -> None:
    async for document in documents:
        text = str(document["text"])
        await client.publish(type="signed", text=text, signature=signature(text))


async def _reply_signed(requests: tidings.Subscription) -> None:
    async for request in requests:
        try:
            await request.reply(signature=signature(str(request["text"])))
        except tidings.TidingsError as error:  # too late, or not allowed: no reason to let others wait
            print(f"{request['text']}: {error}")


async def main(url: str) -> None:
    """Serve until Ctrl-C."""
    async with tidings.connect(url, name="signer") as client:
        await (await start(client))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "tidings://localhost:7311"))
