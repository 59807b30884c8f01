#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# package_test.sh <source> <folder of packages> <folder for roots>
# A stranger's machine, twice: a bare Debian, which shows that the packages depend on all they need, and
# one with compilers and Open MPI. The packages are installed, used by an ordinary user and purged;
# then the files are those from before. Made of namespaces: when this script ends, however that is,
# its processes and mounts end too.
set -euo pipefail
if [[ ${4:-} != inside ]]; then
    if [[ $(id -u) != 0 ]]; then
        echo "skipped: a root of Debian's is made by debootstrap, which only root can do"
        exit 77
    fi
    if ! unshare --mount --pid --ipc --net --fork true; then
        echo "skipped: this machine does not allow namespaces (a container without privileges?)"
        exit 77
    fi
    exec unshare --mount --pid --ipc --fork --kill-child --mount-proc "$0" "$@" inside
fi
source=$1 packages=$2 roots=$3
here=$source/tests/package
root=$roots/test
tools=(g++ make cmake pkg-config openmpi-bin libopenmpi-dev libfabric-bin man-db python3)
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
unset "${!VIA_@}" "${!FI_@}" "${!OMPI_@}" # the user's own must not help

step() { printf -- '-- %s (%d s)\n' "$*" "$SECONDS"; }

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    exit 1
}

# begin_root name [packages]: $root becomes a copy of that root, with what a running system has.
begin_root() {
    "$here/fresh_root.sh" "$roots" "$@"
    rm -rf "$root"
    cp -a "$roots/$1" "$root"
    if [[ -f /etc/resolv.conf ]]; then cp -L /etc/resolv.conf "$root/etc/resolv.conf"; fi
    mkdir "$root/packages"
    cp "$packages"/*.deb "$root/packages"
    local node
    mount -t proc proc "$root/proc"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=755 tmpfs "$root/dev"
    for node in null zero full random urandom tty; do
        touch "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    done
    mkdir -m 1777 "$root/dev/shm"
    mkdir "$root/dev/pts"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
    ln -s pts/ptmx "$root/dev/ptmx"
    ln -s /proc/self/fd "$root/dev/fd"
    mount --bind "$roots/archives" "$root/var/cache/apt/archives"
}

end_root() {
    umount --recursive "$root/proc" "$root/sys" "$root/run" "$root/dev" \
        "$root/var/cache/apt/archives"
    rm -rf "$root"
}

apt() {
    chroot "$root" apt-get -q -y -o APT::Keep-Downloaded-Packages=true \
        -o Dpkg::Options::=--force-unsafe-io --no-install-recommends "$@" >>"$roots/apt.log" 2>&1
}

# install_packages name...: those that were built here.
install_packages() {
    local files=() name
    for name in "$@"; do
        files+=("$(cd "$root" && echo packages/"${name}"_*.deb)")
        [[ -f $root/${files[-1]} ]] || fail "there is no package $name"
    done
    : >"$roots/apt.log"
    if ! apt install "${files[@]/#//}" && ! { apt update && apt install "${files[@]/#//}"; }; then
        tail -n 30 "$roots/apt.log" >&2
        fail "apt-get install $*"
    fi
}

purge_packages() {
    apt purge --autoremove "$@" || {
        tail -n 30 "$roots/apt.log" >&2
        fail "apt-get purge $*"
    }
}

# stranger command...: as an ordinary user, in a network of its own, whose agents and ports are nobody
# else's.
stranger() {
    timeout 120 nsenter --net="$roots/network" chroot --userspec=stranger:stranger --groups= "$root" \
        env -i HOME=/home/stranger LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin \
        VIA_AGENT_IDLE_SECONDS=1 sh -c 'cd && exec "$@"' sh "$@"
}

# says text command...: the stranger's command ends well and says that.
says() {
    local text=$1 output
    shift
    output=$(stranger "$@" 2>&1) || fail "$* ended with $?: $output"
    [[ $output == *"$text"* ]] || fail "$* does not say '$text': $output"
}

# files_of_root [path to leave out ...]: every file with what would show that it was touched. Left out,
# since they are not the packages' own:
files_of_root() {
    local left_out=(
        "$@"
        ./proc ./sys ./dev ./run     # of the kernel and of this script
        ./packages                   # where this script put them
        ./home/stranger              # what the user did
        ./var/log                    # apt and dpkg write what they did
        ./var/cache/apt              # what apt has downloaded, and its index of it
        ./var/lib/apt/extended_states ./var/lib/apt/lists
        ./var/lib/dpkg/status ./var/lib/dpkg/status-old # dpkg's list of packages, asked below
        ./var/lib/dpkg/triggers ./var/lib/dpkg/lock ./var/lib/dpkg/lock-frontend
        ./var/lib/dpkg/available
        ./etc/ld.so.cache ./var/cache/ldconfig # made anew whenever a library comes or goes
        ./var/cache/man                        # man-db's index, likewise
    )
    local expression=() path
    for path in "${left_out[@]}"; do expression+=(-path "$path" -prune -o); done
    (cd "$root" && find . "${expression[@]}" \( -type d -printf '%p %y %m %u:%g\n' -o \
        -printf '%p %y %m %u:%g %s %T@ %l\n' \)) | sort
}

# Agents that were started on demand end by themselves; nobody else may be there.
no_process_left() {
    local process words deadline=$((SECONDS + 30)) present
    while :; do
        present=""
        for process in /proc/[0-9]*; do
            if [[ $(readlink "$process/root") == "$root" ]]; then
                # It may have ended since.
                words=$({ tr '\0' ' ' <"$process/cmdline"; } 2>/dev/null) || continue
                present+=" $words"
            fi
        done
        if [[ -z $present ]]; then return; fi
        if ((SECONDS > deadline)); then fail "these still run:$present"; fi
        sleep 0.2
    done
}

# nothing_left [path to leave out ...]
nothing_left() {
    no_process_left
    files_of_root "$@" >"$roots/after"
    diff -U 0 --label before --label after "$roots/before" "$roots/after" ||
        fail "the files are not those from before"
    if chroot "$root" dpkg-query -W 2>/dev/null | grep -E '^(libvi|openmpi-via|viaduct|python3-viaduct)'; then
        fail "dpkg still knows the packages"
    fi
    [[ -z $(ls "$root/dev/shm") ]] || fail "left in /dev/shm: $(ls "$root/dev/shm")"
}

use_tool() {
    says "$version" via version
    says shm0 via info
    says "one-way" via pingpong --device shm0
    says "provider: via" fi_info -p via
}

version=$(dpkg-parsechangelog -l "$source/debian/changelog" -S Version)
mkdir -p "$roots"
touch "$roots/network"
unshare --net="$roots/network" ip link set lo up

begin_root bare
# Debian's libibverbs, which libfabric needs, makes the group rdma and leaves it.
groups=(./etc/group ./etc/group- ./etc/gshadow ./etc/gshadow-)
files_of_root "${groups[@]}" >"$roots/before"
step "a bare Debian: the tool and the provider"
install_packages libvia-fi viaduct-utils libvipl1
apt install libfabric-bin || fail "no libfabric-bin"
use_tool
[[ ! -e $root/etc/systemd/system/multi-user.target.wants/viad.service ]] ||
    fail "the service is enabled, though every user has an agent without it"
step "and without them"
no_process_left
purge_packages libvia-fi viaduct-utils libvipl1 libfabric-bin
nothing_left "${groups[@]}"
end_root

begin_root tools "${tools[@]}"
files_of_root >"$roots/before"
all=(libvipl1 libvipl-dev libvia-fi openmpi-via viaduct-utils python3-viaduct viaduct-doc)
step "a Debian with compilers and Open MPI: all packages"
install_packages "${all[@]}"
use_tool

step "manual pages, completion, documents"
for page in "1 via" "5 viaduct.conf" "7 vipl" "7 fi_via" "8 viad" "3 VipPostSend" "3 VipxAllocMem"; do
    # shellcheck disable=SC2086 # section and name
    says "/usr/share/man/" man -w $page
done
says complete grep complete /usr/share/bash-completion/completions/via
says "#compdef via" head -n 1 /usr/share/zsh/vendor-completions/_via
while IFS=: read -r file link; do
    link=${link#*](} link=${link%)} link=${link%%#*}
    # Into the sources those look who have them, and manual pages are manual pages here.
    if [[ -z $link || $link == http* || $link =~ ^(\.\./(src|include|bindings)|man)(/|$) ]]; then continue; fi
    [[ -e $(dirname "$file")/$link ]] || fail "viaduct-doc: ${file##*/} links to $link"
done < <(grep -roE '\]\([^) ]+\)' --include='*.md' "$root/usr/share/doc/viaduct-doc")

step "a C program by pkg-config"
# shellcheck disable=SC2016 # for the shell in there
stranger sh -c 'cc -Wall -Werror /usr/share/doc/libvipl-dev/examples/c/echo.c -o echo $(pkg-config --cflags --libs viaduct)'
says "echo: line" ./echo

step "the examples by CMake"
stranger cmake -S /usr/share/doc/libvipl-dev/examples -B examples >"$roots/examples.log"
stranger cmake --build examples -j "$(nproc)" >>"$roots/examples.log"
says "100% tests passed" ctest --test-dir examples

step "the Python module"
says "shm0" python3 -c 'import viaduct; print(viaduct.Nic("shm0").device)'

step "an Open MPI program"
cp "$source"/tests/mpi/{point_to_point.c,check.h} "$root/home/stranger"
stranger mpicc point_to_point.c -o point_to_point
says "point_to_point: good" via run -n 2 ./point_to_point
says "pml/via" via run -n 2 ./point_to_point
says "point_to_point: good" via run -n 2 --over ofi ./point_to_point

step "and without them"
no_process_left
purge_packages "${all[@]}"
nothing_left
end_root
step "all good"
