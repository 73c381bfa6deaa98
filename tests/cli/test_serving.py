"""How a broker starts, says where it is, and answers those who speak TLS where it does not, or the other way round."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from net.certificates import Authority
from serving import serving
from typer.testing import CliRunner, Result

from tidings import sync
from tidings.cli import app
from tidings.cli._addresses import urls
from tidings.cli._serve import _announce
from tidings.net import Options, StartError, serve
from tidings.net._server import Server


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else has."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def tidings_(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("port", ["--port", "--metrics-port"])
def test_a_broker_whose_port_is_taken_leaves_nothing_behind(
    taken: int, port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    ports = {"--port": "0", port: str(taken)}
    words = [word for option in ports.items() for word in option]
    for more in ([], ["--data", str(tmp_path / "store")]):
        result = tidings_("serve", *words, *more)
        assert result.exit_code == 5
        assert f"cannot listen on 127.0.0.1:{taken}" in result.stderr
        assert list(tmp_path.iterdir()) == []


def test_a_broker_that_cannot_open_its_store_gives_its_ports_back(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")

    async def main() -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        for _ in range(2):
            with contextlib.suppress(Exception):
                await Server(Options(port=port, data=tmp_path / "file" / "x")).start()
        async with serve(Options(port=port)):
            pass

    asyncio.run(main())


def test_a_broker_has_a_name() -> None:
    with pytest.raises(StartError, match="give it one with --name"):
        Server(Options(name=""))


def test_the_banner_of_a_broker_that_listens_everywhere_names_addresses_that_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def main() -> str:
        async with serve(Options(host="0.0.0.0", port=0, insecure=True)) as server:
            _announce(server, as_json=False)
            banner = capsys.readouterr().out
            found = re.findall(r"tidings://[^\s]+", banner)
            assert found
            for url in set(found):
                await asyncio.to_thread(_publish, url)
            return banner

    banner = asyncio.run(main())
    assert "0.0.0.0" not in banner
    assert re.search(r"tidings pub .* --broker tidings://127\.0\.0\.1:\d+", banner)


def _publish(url: str) -> None:
    with sync.connect(url) as client:
        client.publish(n=1)


def test_addresses_are_those_that_others_can_use() -> None:
    assert urls("192.0.2.7", 7311, tls=True) == ["tidings+tls://192.0.2.7:7311"]
    assert urls("::1", 99, tls=False) == ["tidings://[::1]:99"]
    for everywhere, here in (("0.0.0.0", "127.0.0.1"), ("::", "[::1]")):
        first, *others = urls(everywhere, 99, tls=False)
        assert first == f"tidings://{here}:99"
        assert everywhere not in [urlsplit(other).hostname for other in others]


# --- TLS --------------------------------------------------------------------------------------------------


def test_a_tls_address_at_a_plain_port_is_explained(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Options(name="plain", port=0)) as url:
        result = tidings_("pub", "n=1", "-b", url.replace("tidings://", "tidings+tls://"))
    assert result.exit_code == 4
    assert "this port does not speak TLS; write tidings:// for it" in result.stderr
    assert "SSL" not in result.stderr
    assert "the other side speaks TLS, and this port does not" in caplog.text


def test_a_plain_address_at_a_tls_port_is_explained(tmp_path: Path) -> None:
    files = Authority(tmp_path).sign("broker")
    with serving(Options(name="secret", port=0, tls=files)) as url:
        result = tidings_("pub", "n=1", "-b", url)
        assert result.exit_code in (3, 4)
        assert re.search(r"write tidings\+tls:// for it", result.stderr), result.stderr
        trusted = url.replace("tidings://", "tidings+tls://")
        assert tidings_("pub", "n=1", "-b", trusted, "--ca", str(tmp_path / "ca.pem")).exit_code == 0


@pytest.mark.parametrize("tls_there", [True, False])
def test_a_neighbour_that_speaks_tls_or_does_not_is_explained(
    tls_there: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = Authority(tmp_path).sign("broker")

    async def main() -> str | None:
        async with serve(Options(name="there", port=0, tls=files if tls_there else None)) as there:
            scheme = "tidings" if tls_there else "tidings+tls"
            here = Options(name="here", port=0, neighbours=(f"{scheme}://127.0.0.1:{there.port}",))
            async with serve(here) as server, asyncio.timeout(20):
                while server.diallers[0].problem is None:
                    await asyncio.sleep(0.01)
                return server.diallers[0].problem

    problem = asyncio.run(main())
    assert problem is not None
    assert "TLS" in problem
    assert "write tidings" in problem
