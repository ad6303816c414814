"""Loopback addresses for hosts, and listening on all of them under one port.

Linux routes all of 127/8 to itself, so every host can have an address of its own, as on the internet;
where that is not so, all hosts share 127.0.0.1 and only their names tell them apart.
"""

import errno
import json
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

BACKLOG = 128


def addresses(hosts: Sequence[str], network: int = 1) -> dict[str, list[str]]:
    """A loopback address for each host, 127.<network>.0.1 and up."""
    return {host: [f"127.{network}.{i // 250}.{i % 250 + 1}"] for i, host in enumerate(hosts)}


def bind(names: Sequence[str], port: int, network: int = 1) -> tuple[list[socket.socket], dict[str, list[str]]]:
    """Listen for every host on one port; port 0 takes a free one."""
    wanted = addresses(names, network) if _routes_all_of_loopback() else {name: ["127.0.0.1"] for name in names}
    return _listen(wanted, port), wanted


def free_port(hosts: Mapping[str, list[str]], port: int) -> int:
    """A port that is free on the address of every host; the given one unless that is 0."""
    sockets = _listen(hosts, port)
    found: int = sockets[0].getsockname()[1]
    for listener in sockets:
        listener.close()
    return found


def _listen(hosts: Mapping[str, list[str]], port: int) -> list[socket.socket]:
    distinct = sorted({address for own in hosts.values() for address in own})
    for _ in range(20):
        try:
            return _bind(distinct, port)
        except OSError as trouble:
            if port or trouble.errno != errno.EADDRINUSE:
                raise
    raise OSError("expected a port that is free on every loopback address, found none in 20 tries; give a port")


def _bind(distinct: Sequence[str], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    try:
        for address in distinct:
            listener = socket.create_server((address, port), backlog=BACKLOG)
            sockets.append(listener)
            port = listener.getsockname()[1]
    except OSError:
        for listener in sockets:
            listener.close()
        raise
    return sockets


def _routes_all_of_loopback() -> bool:
    try:
        socket.create_server(("127.1.0.1", 0)).close()
    except OSError:
        return False
    return True


def announce(what: Mapping[str, Any], ready: Path | None) -> None:
    """Say where a web is served: on stdout, or in a file that appears whole or not at all."""
    text = json.dumps(what) + "\n"
    if ready is None:
        print(text, end="", flush=True)
        return
    draft = ready.with_name(f"{ready.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(ready)
