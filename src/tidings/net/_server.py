"""The server: a broker that listens, connects to its neighbours, stores, and stops in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
import time
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from urllib.parse import urlsplit

from tidings.aggregation import Aggregation, Deployments, Quenching, Receivers
from tidings.broker import Durables, Feature
from tidings.model import FeatureError, TidingsError
from tidings.store import Store
from tidings.wire import Part, exposes_token, is_local, part

from ._budget import CENSUS_SECONDS
from ._code_workers import CodeWorkers
from ._connection import Accepted
from ._delays import Delays
from ._descriptors import room_for
from ._dialler import Dialler
from ._durables import tell_of
from ._graph_seed import configured_edges
from ._host import Host
from ._housekeeping import Housekeeper, can_archive
from ._http import StatusPages
from ._journal import Journal
from ._listener import Listener, bind
from ._log import LogReading
from ._movement import Movement, copies_of
from ._names import clashes
from ._offers import Browsing
from ._options import Limits, Options, TlsOptions
from ._past import history_features, load_archive
from ._pseudonyms import PseudonymFile, drawn_secret
from ._status import Reporter

log = logging.getLogger("tidings.net")


STORE_SECONDS = 0.2
"""For which a stopping server waits for its disk in any case, if its peers have taken all the time."""
GOODBYE_SHARE = 1 / 3
"""The share of `limits.drain` for which a stopping server waits for its peers to take the last bytes."""


class StartError(TidingsError):
    """A server that cannot start."""


class Server:
    """One broker in the world. Use `serve`, or `start` and `stop`."""

    def __init__(self, options: Options, features: Iterable[Feature] = ()) -> None:
        check(options)
        check_neighbours(options)
        check_names(options)
        check_management(options)
        check_authority(options)
        check_archive(options)
        check_history(options)
        check_graph(options)
        self.options = options
        self._features = list(features)
        self.host: Host
        self.durables: Durables
        self.keeper: Housekeeper | None = None
        """Looks after the disk, if there is a store."""
        self.port = options.port
        """The port it listens on; the one that the system chose if the options say 0."""
        self._store: Store | None = None
        self._journal: Journal | None = None
        self._code: CodeWorkers | None = None
        self.listener: Listener | None = None
        """Accepts clients and neighbours."""
        self._tasks: list[asyncio.Task[None]] = []
        self.diallers: list[Dialler] = []
        self.failed: asyncio.Future[None] | None = None
        """Gets an exception when the broker cannot go on."""
        self.draining = False
        """Whether it is stopping."""
        self.pages: StatusPages | None = None
        """Metrics, health and management over HTTP, if they have a port."""

    async def start(self) -> None:
        """Take the ports, open the store, start the broker, listen, dial.

        The ports come first: a server that cannot have them has touched nothing on disk.
        """
        options = self.options
        tls = _server_tls(options.tls) if options.tls is not None else None
        client_tls = _client_tls(options.tls)
        if options.archive is not None:
            load_archive()
        sockets = await _bound(options.host, options.port)
        metrics: list[socket.socket] = []
        try:
            if options.metrics_port is not None:
                metrics = await _bound(options.metrics_host, options.metrics_port, " for metrics")
            reporter = self._open_broker()
        except BaseException:
            for one in (*sockets, *metrics):
                one.close()
            raise
        self.listener = Listener(
            lambda: Accepted(self.host), self.host.max_connections, tls=tls, handshake=options.limits.handshake
        )
        self.listener.start(sockets)
        if metrics:
            self.pages = StatusPages(self, reporter)
            self.pages.start(metrics)
        self.port = self.listener.port
        for url in options.neighbours:
            dialler = Dialler(self.host, url, client_tls, options.neighbour_token)
            self.diallers.append(dialler)
            self._tasks.append(asyncio.create_task(dialler.run(), name=f"dial {url}"))
        self._tasks.append(asyncio.create_task(self._census(), name="census"))
        if self._store is not None:
            self.keeper = Housekeeper(self._store, options)
            self._tasks.append(asyncio.create_task(self.keeper.run(), name="keeper"))
        log.info("broker %s listens on %s:%s", options.name, options.host, self.port)

    def _open_broker(self) -> Reporter:
        """Open the store, and make the broker with its features."""
        loop = asyncio.get_running_loop()
        options = self.options
        if options.data is not None:
            self._store = Store.open(
                options.data, post=loop.call_soon_threadsafe, owner=options.name, promoted=options.store.index
            )
        epoch = self._store.epoch if self._store is not None else time.time_ns() // 1_000
        self.failed = loop.create_future()
        self._journal = journal = Journal(self._store) if self._store is not None else None
        features = [*self._features, *([journal] if journal is not None else []), *history_features(options)]
        aggregation = quenching = None
        if options.aggregation.enabled:
            deployments = Deployments(options.aggregation)
            self._code = deployments.workers = CodeWorkers(
                options.aggregation, turn=lambda do: self.host.call_later(0, do), struck=deployments.struck
            )
            if journal is not None:
                deployments.on_audit = journal.deployed
            aggregation = Aggregation(options.aggregation, deployments, log.warning, drawn_secret)
            if options.data is not None:
                aggregation.secret_known = PseudonymFile(Path(options.data))
            quenching = Quenching()
            features += [deployments, aggregation, Receivers(options.aggregation), quenching]
        self.host = Host(options, epoch, self._store, features, configured_edges(options))
        self.movement = Movement(self.host)
        if (roaming := self.host.roaming) is not None:
            self.movement.copies = lambda client: copies_of(roaming, client)
        if aggregation is not None:
            aggregation.serve(self.host.hosts)
        if journal is not None:
            self.host.neighbourhood.on_hand_off.append(journal.handed_off)
            self.host.governance.scopes.on_audit = journal.audited
            self.host.ledger = journal.ledger if options.store.deliveries else None
        self.host.on_failure = self._fail
        self.durables = Durables(self.host.broker, self._store)
        self.host.following.serve(self.durables)
        if quenching is not None:
            quenching.kept_here = lambda: self.durables.filters
        tell_of(self.durables, self.host.names)
        LogReading(self.host.broker, self._store)
        Browsing(self.host.broker)
        limits = options.limits
        self.host.max_connections = room_for(limits.connections, chosen=limits.connections != Limits().connections)
        return Reporter(self)

    @property
    def store(self) -> Store | None:
        """Its store, if it has one and it is open."""
        return self._store

    @property
    def metrics_port(self) -> int | None:
        """The port of metrics and health, if there is one."""
        return self.pages.port if self.pages is not None else None

    def _fail(self, error: BaseException) -> None:
        """A turn was left half done: nothing more is taken, so nothing is acknowledged that would be lost."""
        self.host.stopping = True
        if self.failed is not None and not self.failed.done():
            self.failed.set_exception(error)

    async def stop(self) -> None:
        """Stop in order: nothing more taken, queues drained, everybody told, the store closed cleanly.

        All of it takes no longer than `limits.drain` seconds, and one commit of the store. What the disk has not taken
        by then was never acknowledged as stored, and its clients hand it over again.
        """
        loop = asyncio.get_running_loop()
        drain = self.options.limits.drain
        deadline = loop.time() + drain
        self.draining = self.host.stopping = True
        if self.listener is not None:
            await self.listener.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._drain(deadline - drain * GOODBYE_SHARE)
        for peer in self.host.peers:
            if peer.stream is not None:
                peer.stream.write(part(Part.BYE))
                peer.stream = None
            peer.close()
        connections = list(self.host.connections)
        for connection in connections:
            connection.close()
        if connections:
            left = max(0.0, deadline - loop.time())
            await asyncio.wait([connection.done for connection in connections], timeout=left)
        for connection in self.host.connections:
            connection.abort()
        await asyncio.sleep(0)
        if self.pages is not None:
            await self.pages.stop()
        if self._code is not None:
            await self._code.close()
        await self._close_store(max(STORE_SECONDS, deadline - loop.time()))
        if self.failed is not None and not self.failed.done():
            self.failed.cancel()

    async def _drain(self, deadline: float) -> None:
        """Wait until the disk has what was taken, and everybody what is theirs."""
        loop = asyncio.get_running_loop()
        self.host.flush()
        while loop.time() < deadline:
            busy = [
                peer for peer in self.host.peers if peer.stream is not None and (peer.queued or peer.session.waiting)
            ]
            if not busy and not (self._store is not None and self._store.statistics().queued):
                return
            await asyncio.sleep(0.02)

    async def _close_store(self, patience: float | None = None) -> None:
        if self._store is not None:
            last = self.host.broker.publications.last if hasattr(self, "host") else None
            if self._journal is not None:
                self._journal.ledger.flush()
            given_up = await asyncio.to_thread(self._store.close, last, patience)
            self._store = None
            if given_up:
                log.warning(
                    "the disk was too slow: %s writes were given up; none of them had been acknowledged as stored",
                    f"{given_up:,}",
                )

    async def _census(self) -> None:
        delays = Delays(self.host.broker, self.host.governance)
        while True:
            await asyncio.sleep(CENSUS_SECONDS)
            self.host.census()
            delays.look(self.host.loop.time())


def check(options: Options) -> None:
    """Raise `StartError` for options that must not be served."""
    if not is_local(options.host) and not options.insecure:
        missing = [
            what
            for what, there in (("TLS", options.tls is not None), ("authentication", not options.access.open))
            if not there
        ]
        if missing:
            raise StartError(
                f"listening on {options.host} without {' and '.join(missing)} would let anyone in; "
                "configure it, listen on 127.0.0.1, or pass --insecure"
            )


def check_neighbours(options: Options) -> None:
    """Raise `StartError` if the token would go to a neighbour where others could read it."""
    for url in options.neighbours if options.neighbour_token is not None and not options.insecure else ():
        parts = urlsplit(url)
        if exposes_token(parts.hostname or "", tls=parts.scheme == "tidings+tls"):
            raise StartError(
                f"the token for neighbours would go to {url} unencrypted, and anyone on the way could read it; "
                f"write tidings+tls://{parts.netloc}, or pass --insecure"
            )


def check_names(options: Options) -> None:
    """Raise `StartError` if the broker has no name, or two identities could have the same one."""
    if not options.name:
        raise StartError("the name of the broker is empty; its network knows it by its name: give it one with --name")
    for clash in clashes(options.access.identities):
        raise StartError(f"{clash.problem}; {clash.remedy}")


def check_management(options: Options) -> None:
    """Raise `StartError` for management that could not be reached, or from too far away."""
    if options.management and options.metrics_port is None:
        raise StartError("management uses the port of the metrics, which have none; set `metrics_port`")
    if options.management and not is_local(options.metrics_host):
        raise StartError(
            f"management is for tools on this machine, but {options.metrics_host} can be reached from others, without "
            "encryption; set `metrics_host` to 127.0.0.1, or leave `management` out"
        )


def check_authority(options: Options) -> None:
    """Raise `StartError` if this broker shall order changes of the scope graph for others and would forget them."""
    if options.authority == options.name and options.data is None:
        raise StartError(
            f"'{options.name}' is the authority of its network but has no data directory: after a restart it would "
            "not know the scopes that others still use; set `data`, drop --no-store, or name another authority"
        )


def check_archive(options: Options) -> None:
    """Raise `StartError` for an archive that could never be written."""
    if options.archive is None:
        return
    if options.data is None:
        raise StartError(
            "an archive is written from the store, and this broker has none; set `data`, or remove [archive]"
        )
    if not can_archive():
        raise StartError("archiving needs pyarrow; in a clone of Tidings, run: pip install '.[archive]'")


def check_history(options: Options) -> None:
    """Raise `StartError` for a strategy of history that does not work with the routing."""
    try:
        list(history_features(options))
    except FeatureError as error:
        raise StartError(str(error)) from None


def check_graph(options: Options) -> None:
    """Raise `StartError` for a neighbour graph that cannot be used."""
    try:
        configured_edges(options)
    except TidingsError as error:
        raise StartError(str(error)) from None


async def _bound(host: str, port: int, purpose: str = "") -> list[socket.socket]:
    try:
        return await bind(host, port)
    except OSError as error:
        raise StartError(
            f"cannot listen on {host}:{port}{purpose}: {_reason(error)}; choose another port, or stop the "
            "program that uses this one"
        ) from None


def _reason(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)  # asyncio adds too many words


def _server_tls(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    _load(context, options)
    if options.ca is not None:
        _trust(context, options.ca)
        context.verify_mode = ssl.CERT_OPTIONAL  # clients may show a token instead; brokers must show something
    return context


def _client_tls(options: TlsOptions | None) -> ssl.SSLContext:
    """How neighbours are dialled that are named by `tidings+tls://`."""
    if options is None:
        return ssl.create_default_context()  # never fall back to a plain connection: it would show the token
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH)
    if options.ca is not None:
        _trust(context, options.ca)
    _load(context, options)
    return context


def _trust(context: ssl.SSLContext, ca: Path) -> None:
    try:
        context.load_verify_locations(ca)
    except (OSError, ssl.SSLError) as error:
        raise StartError(f"cannot use the CA file {ca}: {error.strerror or error}; it must hold certificates") from None


def _load(context: ssl.SSLContext, options: TlsOptions) -> None:
    try:
        context.load_cert_chain(options.certificate, options.key)
    except (OSError, ssl.SSLError) as error:
        raise StartError(
            f"cannot use the certificate {options.certificate} with the key {options.key}: {error}"
        ) from None


@contextlib.asynccontextmanager
async def serve(options: Options, features: Iterable[Feature] = ()) -> AsyncIterator[Server]:
    """A running server, stopped in order at the end."""
    server = Server(options, features)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
