"""Publishing: the methods of a client that send something to whoever wants it, and wait for what becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from tidings.broker import MAX_NUMBER, MAX_TIMEOUT, LocalBroker, current
from tidings.model import ArgumentRefused, Notification, TidingsError, object_attributes
from tidings.wire import REQUESTS, Opening, Quality

from ._arguments import choice_of, integer_of, microseconds_of, shown
from ._publications import Publications
from ._quenching import Quenching
from ._receipt import UNHEARD, Receipt
from ._receivers import COUNT_WITHIN, Counting, CountTerms
from ._requests import REQUEST_TIMEOUT, Replies, Requests
from ._uplink import Uplink

_FIRE = Quality.FIRE  # as a name of its own it is found faster
_QUALITIES = {name.lower(): quality for name, quality in Quality.__members__.items()}


class Publishing:
    """What a client needs to publish; whoever derives from it sets these."""

    _link: Uplink
    _local: LocalBroker
    _publications: Publications
    _counting: Counting
    _quenching: Quenching
    _requests: Requests
    _published: int

    def _check(self) -> None:
        """Raise the reason if nothing can be published now."""
        raise NotImplementedError

    async def publish(
        self,
        notification: object = None,
        /,
        *,
        quality: Quality | str = Quality.DEFAULT,
        ttl: float | None = None,
        publisher_seq: int | None = None,
        count_receivers: bool | str = False,
        count_within: float = COUNT_WITHIN,
        quench: bool = False,
        **attributes: object,
    ) -> Receipt:
        """Publish attributes, a mapping, a dataclass or a msgspec Struct; return once the publication is on its way.

        Unless a `quality` is given, the broker chooses: `stored` where it has a store, else `accepted`. `await` the
        receipt to wait for the acknowledgement; then `receipt.quality` says what was reached.

        While too many publications are unacknowledged, or while the broker takes no more, this call waits: a fast
        publisher is slowed down. Pass a mapping for attributes whose names are not Python names, or those of other
        arguments. For an object, `type` holds the names of its class and superclasses, unless it has a field of that
        name.

        `publisher_seq` is the number of this publication, for clients that were connected with `own_numbers`.

        With `count_receivers`, this call waits until the clients that get the publication have acknowledged it, at most
        `count_within` seconds, and `receipt.receivers` says how many did. True counts in the root scope; give the name
        of another one to count there. This needs the right to count in that scope: without it, `AccessDenied` is
        raised, and nothing is published.

        With `quench`, what nobody wants is not published: it does not leave this client, and `receipt.quenched` is
        True. It would be missing from the past, so this needs quality `fire`, or a broker without a store; otherwise
        `ArgumentRefused` is raised. Who does that knows what others subscribe to, and needs the right `administer`.
        """
        content: Mapping[str, object]
        if notification is None:
            content = attributes
        elif attributes or type(notification) is not dict:
            content = _notification(notification, attributes)
        else:
            content = notification
        if not isinstance(quality, Quality):
            known = _QUALITIES.get(quality)
            quality = known if known is not None else choice_of(Quality, quality, "quality")
        if publisher_seq is not None:
            integer_of(publisher_seq, "publisher_seq", 1, MAX_NUMBER)
        lifetime = None if ttl is None else microseconds_of(ttl, "a time to live", MAX_NUMBER)
        if quench:
            self._check()
            if count_receivers:
                raise ArgumentRefused("quench and count_receivers: what is not published has no receivers; choose one")
            if quality is not _FIRE:
                await self._quenching.answered(quality)
            if (receipt := self._quenching.leaves_out(content, quality)) is not None:
                return receipt
        if not self._link.traffic.flowing or self._publications.full:
            await self._may_publish()
        if count_receivers:
            terms = CountTerms.checked(count_receivers, count_within, quality)
            return await self._publish_counted(content, quality, lifetime, publisher_seq, terms)
        number = self._local.publish(content, quality=quality, ttl=lifetime, seq=publisher_seq)
        self._published += 1
        if quality is _FIRE:
            return Receipt(number, _FIRE, UNHEARD)
        return self._publications.add(number)

    async def _publish_counted(
        self,
        content: Mapping[str, object],
        quality: Quality,
        ttl: int | None,
        seq: int | None,
        terms: CountTerms,
    ) -> Receipt:
        """Publish something, and wait until its receivers are counted."""
        body = Notification(content)  # what cannot be published is refused before anybody is asked
        id = await self._counting.reserve(terms)
        try:
            await self._may_publish()
            number = seq if seq is not None else self._local.published + 1
            self._counting.follow(id, number)
            self._local.publish(body, quality=quality, ttl=ttl, seq=number)
            self._published += 1
            receipt = self._publications.add(number)
            await receipt
        except BaseException:
            if self._link.failure is None:
                self._counting.abandon(id)
            raise
        receipt.receivers = await self._counting.received(id, terms)
        return receipt

    def request(
        self, notification: object = None, /, *, timeout: float = REQUEST_TIMEOUT, **attributes: object
    ) -> Replies:
        """Ask whoever subscribes to this: `await` the result for the first reply, or iterate over all that come.

        An iteration ends after `timeout` seconds. `NoResponder` is raised at once if the broker knows that nobody gets
        the request, `NoReply` if none has come in time. Replies go to this client and to nobody else. Whoever handles
        the request replies by `await request.reply(...)`.
        """
        microseconds_of(timeout, "a timeout", MAX_TIMEOUT)
        content = _notification(notification, attributes) if notification is not None else attributes

        async def publish(opening: Opening) -> int:
            self._check()
            if REQUESTS not in (self._link.features or ()):
                raise TidingsError(
                    f"broker '{self._link.broker}' is of a version that knows no requests; upgrade it, or publish"
                )
            if not self._link.traffic.flowing or self._publications.full:
                async with asyncio.timeout(timeout):
                    await self._may_publish()
            self._published += 1
            return self._local.publish(content, opens=opening)

        return Replies(self._requests, publish, timeout)

    async def reply(self, notification: object = None, /, **attributes: object) -> None:
        """Reply to the request that is being handled here, as `request.reply` does.

        `NotARequest` if there is none, or more than one.
        """
        content = _notification(notification, attributes) if notification is not None else attributes
        await self._requests.reply(current(), content)

    async def _may_publish(self) -> None:
        """Wait until the broker takes more; raise the reason if it never will."""
        self._check()
        while not self._link.traffic.flowing or self._publications.full:
            await (self._publications.moved() if self._link.traffic.flowing else self._link.traffic.flow())
            self._check()

    async def publish_many(self, notifications: Iterable[object], *, quality: Quality | str = Quality.DEFAULT) -> int:
        """Publish one after the other and wait until all are acknowledged; return how many there were."""
        if isinstance(notifications, Mapping | str | bytes) or not hasattr(notifications, "__iter__"):
            raise ArgumentRefused(f"notifications={shown(notifications)}; give a list of mappings or objects")
        count = 0
        for notification in notifications:
            await self.publish(notification, quality=quality)
            count += 1
        await self.flush()
        return count

    async def flush(self) -> None:
        """Wait until every publication is acknowledged; raise the first refusal whose receipt was not awaited."""
        self._check()
        await self._publications.flush()


def _notification(given: object, more: Mapping[str, object]) -> Mapping[str, object]:
    """What `publish` was given, if it is more than attributes or one dict."""
    if isinstance(given, Mapping):
        return Notification(given, **more) if more else given
    if isinstance(given, type) or not (hasattr(given, "__struct_fields__") or hasattr(given, "__dataclass_fields__")):
        raise ArgumentRefused(
            f"{shown(given)} cannot be published; give attributes (symbol='SAP'), a mapping, a dataclass or a "
            "msgspec.Struct"
        )
    return Notification(object_attributes(given), **more)
