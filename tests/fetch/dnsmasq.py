"""Debian's dnsmasq on a loopback port of its own: what it is asked stands in its log. For tests only."""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAM = shutil.which("dnsmasq", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
BASE = ("no-resolv", "no-hosts", "keep-in-foreground", "bind-interfaces", "log-queries", "cache-size=0")


@dataclass
class Dnsmasq:
    """A running server."""

    port: int
    log: Path
    process: "subprocess.Popen[bytes]"

    @property
    def asked(self) -> Counter[tuple[str, str]]:
        """How often each (name, "A" or "AAAA") was asked for."""
        lines = [line.partition("]: ")[2].split() for line in self.log.read_text().splitlines()]
        return Counter((words[1], words[0].partition("[")[2].rstrip("]")) for words in lines if _is_query(words))

    def falls_silent(self) -> None:
        """Take questions and answer none."""
        self.process.send_signal(signal.SIGSTOP)

    def speaks_again(self) -> None:
        self.process.send_signal(signal.SIGCONT)


def _is_query(words: list[str]) -> bool:
    return len(words) > 1 and words[0].startswith(("query[", "auth["))


@contextmanager
def dnsmasq(folder: Path, *settings: str, port: int = 0) -> Iterator[Dnsmasq]:
    """Run dnsmasq with these lines of configuration for as long as the block lasts; its log starts anew."""
    if PROGRAM is None:
        # Where CI runs, what is missing is a failure: these tests must run there.
        (pytest.fail if os.environ.get("CRAWL_TESTS_NEED_SERVERS") else pytest.skip)("dnsmasq is not installed")
    port, log = port or _free_port(), folder / "dnsmasq.log"
    log.unlink(missing_ok=True)
    lines = [*BASE, f"port={port}", "listen-address=127.0.0.1", f"log-facility={log}", f"pid-file={folder / 'pid'}"]
    user = ["user=root"] if os.geteuid() == 0 else []  # else it gives up root and cannot write its log
    (folder / "dnsmasq.conf").write_text("\n".join([*lines, *user, *settings]) + "\n")
    process = subprocess.Popen([PROGRAM, "-C", str(folder / "dnsmasq.conf")], stderr=subprocess.DEVNULL)
    try:
        _wait_until_it_listens(process, log)
        yield Dnsmasq(port, log, process)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)


def _wait_until_it_listens(process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 10
    while not log.exists() or "started, version" not in log.read_text():
        assert process.poll() is None, "dnsmasq ended at once"
        assert time.monotonic() < deadline, "dnsmasq did not start within 10 s"
        time.sleep(0.01)


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
