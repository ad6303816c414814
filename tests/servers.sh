#!/bin/sh
# Install the real servers that tests run against, from Debian's packages: dnsmasq. Needs Debian or a system derived from
# it. Runs apt-get as root, through sudo where that is needed; does nothing where all is there. Nothing is started.
set -eu

if [ -x /usr/sbin/dnsmasq ] || command -v dnsmasq >/dev/null 2>&1; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "servers: found no apt-get; install dnsmasq by hand, or its tests are skipped" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi

$as_root apt-get update -q
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends dnsmasq-base
