# SPDX-License-Identifier: BSD-3-Clause
import contextlib
import itertools
import os
import pathlib
import subprocess
import sys
import threading

import pytest

import viaduct

TIMEOUT = 20
_numbers = itertools.count()


@pytest.fixture
def service():
    """A name that no other test uses, of this run or another."""
    return f"python-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def nic():
    with viaduct.Nic("shm0") as opened:
        opened.quiet()
        yield opened


@pytest.fixture
def start_peer(service):
    """start_peer(role): another process that waits to be connected to."""
    started = []

    def start(role):
        program = pathlib.Path(__file__).with_name("peer.py")
        process = subprocess.Popen([sys.executable, str(program), role, service], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=TIMEOUT)
        process.kill()
        process.wait()


@pytest.fixture
def pair(nic, service):
    """pair(**options): two VIs of this process, connected to each other."""
    def make(first=None, second=None, **options):
        one = nic.create_vi(**options, **(first or {}))
        two = nic.create_vi(**options, **(second or {}))
        failed = []

        def accept():
            try:
                nic.listen(service).accept(two, TIMEOUT)
            except viaduct.Error as error:
                failed.append(error)

        thread = threading.Thread(target=accept)
        thread.start()
        one.connect(service, TIMEOUT)
        thread.join(TIMEOUT)
        assert not failed and not thread.is_alive()
        return one, two

    return make
