# SPDX-License-Identifier: BSD-3-Clause
# %% [markdown]
# # First steps with Viaduct from Python
#
# Two processes exchange messages with no system call on the way, one writes into the other's memory,
# and we look at how long that takes and at what was counted. The file is a notebook: VS Code opens
# its cells as they are, Jupyter with jupytext; as a program, `python3 first_steps.py` runs them all.
#
# A NIC is a device of the library: `shm0` connects processes of one host. It belongs to the process
# that opened it.

# %%
import os
import statistics
import subprocess
import sys
import time

import viaduct

nic = viaduct.Nic("shm0")
print(nic, nic.attributes)

# %% [markdown]
# ## Memory
#
# Only registered memory can be sent from, received into or reached by RDMA. `allocate` takes it from
# the kernel agent, where peers can map it. It is shown by `memoryview` (and `numpy.frombuffer`)
# without a copy; a slice of it is what operations take.

# %%
memory = nic.allocate(64 * 1024)
memory[0:5] = b"hello"
print(memory, bytes(memory[0:5]), memoryview(memory)[1])

# %% [markdown]
# ## The other process
#
# It listens, offers a part of its memory, and sends back every message that it gets. It looks for
# messages without pause, since we want to see how fast that is. Receives are posted *before* a message
# can come: in VIA a message that finds none is an error.

# %%
OTHER = """
import sys, viaduct

nic = viaduct.Nic("shm0")
nic.quiet()                                      # no word in the log when the other leaves
memory = nic.allocate(64 * 1024, rdma_write=True, rdma_read=True)
vi = nic.create_vi(rdma_write=True, rdma_read=True)
vi.post_receive(memory[0:64])
nic.listen(sys.argv[1]).accept(vi)

memory[128:144] = bytes(memory.remote(offset=4096, length=4096))
vi.send(memory[128:144])                         # where the other may write, and read
vi.wait_send().check()

while True:
    message = vi.poll_receive()
    if message is None:
        continue
    if not message.ok:
        break                                    # flushed: the connection has ended
    part = memory[128:128 + message.length]
    part[:] = message.segments[0][:message.length]
    vi.post_receive(memory[0:64])
    vi.send(part)
    vi.wait_send().check()
"""
service = f"first-steps-{os.getpid()}"
other = subprocess.Popen([sys.executable, "-c", OTHER, service])

# %% [markdown]
# ## A connection
#
# A VI is one end of a connection. `connect` asks until somebody listens there.

# %%
vi = nic.create_vi()
vi.post_receive(memory[4096:4160])
print("the other end:", vi.connect(service, timeout=30).reliability)
offer = viaduct.RemoteSegment.from_bytes(vi.wait_receive().check().data)
print("it offers", offer)

# %% [markdown]
# ## A message
#
# Posting returns at once; completions come in the order of posting. `check()` raises if the operation
# failed. `wait_...` lets other threads run.

# %%
vi.post_receive(memory[4096:4160])
vi.send(memory[0:5])
vi.wait_send().check()
answer = vi.wait_receive().check()
print(answer, answer.data)
assert answer.data == b"hello"

# %% [markdown]
# ## RDMA
#
# We write into the other's memory and read it back. It does nothing for either.

# %%
memory[1024:2048] = bytes(range(256)) * 4
vi.rdma_write(offer, memory[1024:2048])
vi.wait_send().check()
vi.rdma_read(offer.after(256), memory[2048:2304])
got = vi.wait_send().check()
print(got, got.data[:4])
assert got.data == bytes(range(256))

# %% [markdown]
# ## How long does it take?
#
# A ball goes to and fro; half of a round trip is the time one way. Much of it is the interpreter's:
# `via pingpong --device shm0 --bytes 8` shows what the library needs.

# %%
ball, catch = memory[0:8], memory[4096:4104]
times = []
for _ in range(2000):
    begin = time.perf_counter_ns()
    vi.post_receive(catch)
    vi.send(ball)
    while vi.poll_send() is None:
        pass
    while vi.poll_receive() is None:
        pass
    times.append((time.perf_counter_ns() - begin) / 2000)

percentiles = statistics.quantiles(times, n=100)
print(f"one way: median {statistics.median(times):.2f} us, 90 %: {percentiles[89]:.2f}, "
      f"99 %: {percentiles[98]:.2f}")
low = min(times)
for i in range(12):
    begin, end = low * 1.25**i, low * 1.25 ** (i + 1)
    count = sum(begin <= one < end for one in times)
    print(f"{begin:8.2f} us {count:6d} " + "#" * round(60 * count / len(times)))
rest = sum(one >= low * 1.25**12 for one in times)
print(f"    more    {rest:6d} " + "#" * round(60 * rest / len(times)))

# %% [markdown]
# ## What was counted
#
# Every process counts as it goes; `counters()` reads all of yours, as `via stat` does. We sent one
# message and 2000 balls, and the other as many and its offer.

# %%
def totals(pid):
    return viaduct.counters(str(pid))[0]["totals"]


mine = totals(os.getpid())
deadline = time.monotonic() + 30
while (theirs := totals(other.pid))["sent_messages"] != mine["received_messages"]:
    assert time.monotonic() < deadline  # it counts its last ball after it has thrown it
for name in ("sent_messages", "received_messages", "sent_bytes", "rdma_writes", "rdma_reads"):
    print(f"{name:18} {mine[name]:8} {theirs[name]:8}")
assert mine["sent_messages"] == theirs["received_messages"] == 2001
assert theirs["sent_messages"] == mine["received_messages"] == 2002
assert mine["rdma_writes"] == mine["rdma_reads"] == 1
print("both processes counted the same")

# %% [markdown]
# The end: closing the VI ends the connection, and the other process sees it.

# %%
vi.close()
print("the other process ended with", other.wait(timeout=30))
