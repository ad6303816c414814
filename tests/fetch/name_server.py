"""A name server on loopback UDP that answers from a table and counts what it was asked. For tests only."""

from collections import Counter
from dataclasses import dataclass, field

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import trio


@dataclass
class NameServer:
    """`records` maps (name, "A" or "AAAA") to (ttl, values), to an rcode, or to None for silence."""

    records: dict
    port: int = 0
    asked: Counter = field(default_factory=Counter)
    pause_s: float = 0.0

    async def start(self, nursery):
        """Listen, and answer until the nursery is cancelled."""
        socket = trio.socket.socket(trio.socket.AF_INET, trio.socket.SOCK_DGRAM)
        await socket.bind(("127.0.0.1", 0))
        self.port = socket.getsockname()[1]
        nursery.start_soon(self._serve, socket)

    async def _serve(self, socket):
        with socket:
            while True:
                packet, peer = await socket.recvfrom(4_096)
                reply = self._reply(dns.message.from_wire(packet))
                await trio.sleep(self.pause_s)
                if reply is not None:
                    await socket.sendto(reply.to_wire(), peer)

    def _reply(self, query):
        question = query.question[0]
        name, kind = question.name.to_text(omit_final_dot=True), question.rdtype.name
        self.asked[name, kind] += 1
        found = self.records.get((name, kind), dns.rcode.NXDOMAIN)
        if found is None:
            return None
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.RA
        if isinstance(found, dns.rcode.Rcode):
            reply.set_rcode(found)
        elif found[1]:
            reply.answer.append(dns.rrset.from_text(question.name, found[0], "IN", kind, *found[1]))
        return reply
