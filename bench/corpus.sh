#!/bin/sh
# Install the real corpus that the site farm serves: Debian's python3-doc and libboost-doc, and nginx to serve them.
# Needs Debian or a system derived from it. Runs apt-get as root, through sudo where that is needed.
set -eu

if ! command -v apt-get >/dev/null 2>&1; then
    echo "corpus: found no apt-get; the corpus is made of Debian packages, so run this on Debian or Ubuntu" >&2
    exit 1
fi
if [ "$(id -u)" -eq 0 ]; then as_root=""; else as_root="sudo"; fi

# A package's documentation is left out where dpkg excludes /usr/share/doc, as slim images do: ask for it back.
keep="-o DPkg::Options::=--path-include=/usr/share/doc/*"

$as_root apt-get update -q
# RUNLEVEL=1 keeps Debian from starting nginx as a service on port 80: the farm starts its own.
$as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
    apt-get install -q -y --no-install-recommends $keep python3-doc libboost-doc nginx-light

for folder in /usr/share/doc/python3-doc/html /usr/share/doc/libboost*-doc/doc/html; do
    if [ ! -d "$folder" ]; then
        echo "corpus: $folder is missing after the install; if the packages were there before," >&2
        echo "corpus: run: $as_root apt-get install --reinstall $keep python3-doc libboost-doc" >&2
        exit 1
    fi
done
echo "corpus: ready"
