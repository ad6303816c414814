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
LOG = "dnsmasq.log"
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
    process, port = _started(PROGRAM, folder, settings, port)
    try:
        yield Dnsmasq(port, folder / LOG, process)
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(10)


def _started(
    program: str, folder: Path, settings: tuple[str, ...], wanted: int
) -> tuple["subprocess.Popen[bytes]", int]:
    """Start it, on another port if the free one was taken by somebody else meanwhile."""
    for _ in range(5):
        port = wanted or _free_port()
        log, conf, said = folder / LOG, folder / "dnsmasq.conf", folder / "dnsmasq.stderr"
        log.unlink(missing_ok=True)
        lines = [*BASE, f"port={port}", "listen-address=127.0.0.1", f"log-facility={log}", f"pid-file={folder / 'pid'}"]
        user = ["user=root"] if os.geteuid() == 0 else []  # else it gives up root and cannot write its log
        conf.write_text("\n".join([*lines, *user, *settings]) + "\n")
        with said.open("wb") as stderr:
            process = subprocess.Popen([program, "-C", str(conf)], stderr=stderr)
        if _listens(process, log):
            return process, port
    raise AssertionError(f"dnsmasq ended at once, five times: {said.read_text()}")


def _listens(process: "subprocess.Popen[bytes]", log: Path) -> bool:
    """Wait until it takes questions; False if it ended instead."""
    deadline = time.monotonic() + 10
    while not log.exists() or "started, version" not in log.read_text():
        if process.poll() is not None:
            return False
        assert time.monotonic() < deadline, "dnsmasq did not start within 10 s"
        time.sleep(0.01)
    return True


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
