# SPDX-License-Identifier: BSD-3-Clause
"""The other process of a test: python3 peer.py role service [number]. It says "ready" when it can be
connected to, and ends when the connection ends."""

import sys

import viaduct

TIMEOUT = 20


def connected(service, **options):
    nic = viaduct.Nic("shm0")
    nic.quiet()  # the test leaves when it likes
    memory = nic.allocate(65536, rdma_write=True, rdma_read=True)
    vi = nic.create_vi(**options)
    vi.post_receive(memory[:4096])
    print("ready", flush=True)
    nic.listen(service).accept(vi, TIMEOUT)
    return memory, vi


def echo(service):
    """Every message comes back, its immediate data plus one."""
    memory, vi = connected(service)
    while True:
        message = vi.wait_receive(TIMEOUT)
        if not message.ok:
            return
        length = message.length
        memory[8192:8192 + length] = message.data
        vi.post_receive(memory[:4096])
        immediate = None if message.immediate is None else message.immediate + 1
        vi.send(memory[8192:8192 + length], immediate=immediate)
        vi.wait_send(TIMEOUT).check()


def target(service):
    """Offers memory for RDMA; when the immediate data of a write has come, sends what it sees."""
    memory, vi = connected(service, rdma_write=True, rdma_read=True)
    memory[:16] = bytes(memory.remote(32768, 16384))
    vi.send(memory[:16])
    vi.wait_send(TIMEOUT).check()
    written = vi.wait_receive(TIMEOUT).check()
    assert written.operation == "remote_rdma_write" and written.data == b""
    vi.post_receive(memory[:4096])
    vi.send(memory[32768:32768 + 1000], immediate=written.immediate)
    vi.wait_send(TIMEOUT).check()
    vi.wait_receive(TIMEOUT)


def still(service):
    """Takes seven messages and then stands still until its input ends."""
    memory, vi = connected(service)
    for _ in range(7):
        vi.wait_receive(TIMEOUT).check()
        vi.post_receive(memory[:4096])
        vi.send(memory[:8])
        vi.wait_send(TIMEOUT).check()
    print("still", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    {"echo": echo, "target": target, "still": still}[sys.argv[1]](sys.argv[2])
