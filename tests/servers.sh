#!/bin/sh
# Install what tests run against, from Debian's packages: dnsmasq, a real name server, and chromium, a real browser. Needs
# Debian or a system derived from it. Runs apt-get as root, through sudo where that is needed; does nothing where all is
# there. Nothing is started.
set -eu

missing=""
if ! [ -x /usr/sbin/dnsmasq ] && ! command -v dnsmasq >/dev/null 2>&1; then missing="dnsmasq-base"; fi
if ! command -v chromium >/dev/null 2>&1; then missing="$missing chromium"; fi
if [ -z "$missing" ]; then exit 0; fi
if ! command -v apt-get >/dev/null 2>&1; then
    echo "servers: found no apt-get; install$missing by hand, or their tests are skipped" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi

$as_root apt-get update -q
# $missing is a list of names.
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing
