#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# fresh_root.sh <folder> <name> [package ...]
# Makes <folder>/<name>, the root of a bare Debian of this host's release with one user, "stranger",
# and these packages; what is there already is kept. Debian's archive is the one that this host uses.
# Nothing stays mounted, whatever happens: the caller is in a mount namespace of its own.
set -euo pipefail
folder=$1 name=$2
shift 2
root=$folder/$name
archives=$folder/archives # what was downloaded once

if [[ -f $root.complete && $(<"$root.complete") == "$*" ]]; then exit 0; fi

# shellcheck disable=SC1091 # a file of the system
release=$(. /etc/os-release && printf '%s' "$VERSION_CODENAME")
# shellcheck disable=SC2016 # the variables are apt's
mapfile -t sources < <(apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Created-By: Packages' "Architecture: $(dpkg --print-architecture)" |
    awk -v release="$release" '$3 == release || index($3, release "-") == 1' | sort -u)
mirror=$(printf '%s\n' "${sources[@]}" | awk -v release="$release" '$3 == release { print $2; exit }')
if [[ -z $mirror ]]; then
    printf 'skipped: apt knows no source of Debian %s here: apt-get update?\n' "$release" >&2
    exit 77
fi
proxy=$(apt-config dump Acquire::http::Proxy | sed -n 's/.*"\(.*\)";/\1/p')
if [[ -n $proxy ]]; then export http_proxy=$proxy; fi
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

mkdir -p "$archives"
rm -rf "$root" "$root.complete"
if [[ ! -f $folder/bare.complete ]]; then
    rm -rf "$folder/bare"
    debootstrap --variant=minbase --cache-dir="$archives" "$release" "$folder/bare" "$mirror" \
        >"$folder/bare.log" || {
        tail -n 20 "$folder/bare.log" "$folder/bare/debootstrap/debootstrap.log" >&2
        printf 'skipped: debootstrap can make no root of Debian %s here\n' "$release" >&2
        exit 77
    }
    printf '%s\n' "${sources[@]}" >"$folder/bare/etc/apt/sources.list"
    chroot "$folder/bare" useradd --create-home --shell /bin/bash stranger
    chroot "$folder/bare" apt-get -q update >>"$folder/bare.log"
    rm -f "$folder"/bare/var/cache/apt/archives/*.deb # they are in $archives
    touch "$folder/bare.complete"
fi
if [[ $name == bare ]]; then exit 0; fi

cp -a "$folder/bare" "$root"
mount --bind "$archives" "$root/var/cache/apt/archives"
mount -t proc proc "$root/proc"
install_packages() {
    chroot "$root" apt-get -q -y -o APT::Keep-Downloaded-Packages=true \
        -o Dpkg::Options::=--force-unsafe-io install --no-install-recommends "$@" >"$root.log"
}
# The archive may have newer versions than those it had when the bare root was made.
if ! install_packages "$@"; then
    chroot "$root" apt-get -q update >"$root.log"
    install_packages "$@" || {
        tail -n 20 "$root.log" >&2
        printf 'skipped: what a root needs (%s) can not be had from %s\n' "$*" "$mirror" >&2
        exit 77
    }
fi
umount "$root/proc" "$root/var/cache/apt/archives"
printf '%s' "$*" >"$root.complete"
