"""The crawler connects to public addresses only."""

from ipaddress import IPv4Address, ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl_pipeline.core.addresses import Networks, allowed, blocked


@given(st.ip_addresses())
def test_what_python_calls_private_is_never_allowed(address: object) -> None:
    ip = ip_address(str(address))
    assert not (allowed(str(ip)) and (ip.is_private or ip.is_loopback or ip.is_multicast or ip.is_link_local))


@given(st.ip_addresses(v=4))
def test_an_address_in_other_clothes_is_judged_by_what_it_embeds(address: IPv4Address) -> None:
    six_to_four = f"2002:{int(address) >> 16:x}:{int(address) & 0xFFFF:x}::1"
    isatap = f"2620:fe::5efe:{address}", f"2620:fe::200:5efe:{address}"
    for dressed in (f"::ffff:{address}", f"64:ff9b::{address}", six_to_four, *isatap):
        assert allowed(dressed) == allowed(str(address))


@pytest.mark.parametrize(
    "ip",
    [
        "fe80::1%eth0",
        "ff02::1",
        "2001::1",
        "2001:db8::1",
        "::7f00:1",
        "::ffff:0:127.0.0.1",
        "64:ff9b:1::a00:1",
        "fd00:ec2::254",
        "169.254.169.254",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "",
        "h.example",
        "1.2.3",
    ],
)
def test_special_addresses_and_nonsense_are_refused(ip: str) -> None:
    assert not allowed(ip)


def test_exempt_networks_are_allowed() -> None:
    exempt = (ip_network("127.0.0.0/8"), ip_network("fd00::/8"))
    assert allowed("127.0.0.3", exempt)
    assert allowed("fd00::1", exempt)
    assert not allowed("10.0.0.1", exempt)


SOME = ["10.0.0.0/8", "10.1.0.0/16", "203.0.113.7", "fd00::/8", "9.9.9.0/25", "9.9.9.128/25"]


@given(st.ip_addresses() | st.sampled_from(["10.1.2.3", "203.0.113.7", "203.0.113.8", "fd12::1", "9.9.9.200"]))
def test_looking_an_address_up_among_networks_is_comparing_it_with_each(address: object) -> None:
    ip = ip_address(str(address))
    assert (ip in Networks(SOME)) == any(ip in network for network in map(ip_network, SOME))


def test_a_blocked_address_is_blocked_in_other_clothes_too() -> None:
    block = Networks(["9.9.9.0/24"])
    assert all(blocked(ip, block) for ip in ("9.9.9.9", "::ffff:9.9.9.9", "64:ff9b::9.9.9.9", "[2002:909:909::1]"))
    assert not any(blocked(ip, block) for ip in ("9.9.8.9", "2620:fe::fe", "nonsense"))
