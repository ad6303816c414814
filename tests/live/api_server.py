"""The HTTP API on loopback for tests: the real application behind the real server, in a thread."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from crawl_pipeline.api import serving
from crawl_pipeline.api.connections import Connection
from crawl_pipeline.api.tokens import Tokens
from crawl_pipeline.core import policy as policies

TOKEN = "a-token-of-the-operator"
OTHER = "a-token-of-another-one"
MINIMAL = '[agent]\nname = "TestBot"\ncontact = "http://bot.test/"\n'


@contextmanager
def serving_api(root: Path, connection: type[Connection] = Connection) -> Iterator[httpx.Client]:
    """Serve the API of a lake; the client comes with the operator's token."""
    tokens = Tokens({"operator": TOKEN, "other": OTHER})
    server = serving.server(str(root), lambda: policies.load((root / "policy.toml").read_text()), tokens,
                            connection=connection)  # fmt: skip
    with serving.listen(serving.Where(port=0)) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            while not server.started:
                time.sleep(0.01)
            with httpx.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=30) as client:
                yield client
        finally:
            server.should_exit = True
            thread.join()
