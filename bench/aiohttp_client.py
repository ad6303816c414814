"""aiohttp in the place of our fetch path, for `bench.fetch`; runs in the environment that `make peers` makes.

One session for all hosts, one kept connection and one request at a time to each. Prints one JSON object.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

import aiohttp


async def asked(settings: dict[str, Any]) -> tuple[int, float]:
    """Ask all hosts for all paths; give pages and CPU seconds."""
    connector = aiohttp.TCPConnector(limit=0, limit_per_host=1)
    async with aiohttp.ClientSession(connector=connector) as session:

        async def ask(host: str, address: str) -> int:
            pages = 0
            for path in settings["paths"]:
                url = f"http://{address}:{settings['port']}{path}"
                async with session.get(url, headers={"Host": f"{host}:{settings['port']}"}) as answer:
                    pages += answer.status == 200 and len(await answer.read()) > 0
            return pages

        began = time.process_time()
        pages = await asyncio.gather(*(ask(*host) for host in settings["hosts"].items()))
        return sum(pages), time.process_time() - began


if __name__ == "__main__":
    pages, cpu_s = asyncio.run(asked(json.loads(Path(sys.argv[1]).read_text())))
    print(json.dumps({"pages": pages, "cpu_s": cpu_s}))
