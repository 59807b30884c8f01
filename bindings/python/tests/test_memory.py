# SPDX-License-Identifier: BSD-3-Clause
"""Registered memory: what sees it, what holds it."""

import gc
import weakref

import pytest

import viaduct

TIMEOUT = 20


def test_others_see_the_memory_itself(nic):
    memory = nic.allocate(4096)
    assert memory.shareable and len(memory) == 4096
    view = memoryview(memory)
    assert view.format == "B" and not view.readonly and view.nbytes == 4096
    view[:3] = b"abc"
    assert bytes(memory[:3]) == b"abc"
    part = memory[100:200]
    part[10:12] = b"xy"
    assert bytes(view[110:112]) == b"xy" and part.offset == 100 and part.memory is memory
    del memory, part
    gc.collect()
    assert bytes(view[:3]) == b"abc"  # the view holds it


def test_numpy_sees_the_memory_itself(nic):
    numpy = pytest.importorskip("numpy")
    memory = nic.allocate(4096)
    array = numpy.frombuffer(memory, dtype=numpy.uint32)
    array[:] = numpy.arange(1024)
    assert bytes(memory[4:8]) == b"\x01\x00\x00\x00"
    own = numpy.zeros((8, 8))
    assert len(nic.register(own)) == 512
    with pytest.raises(ValueError, match="one piece"):
        nic.register(own[:, ::2])


def test_registered_memory_stays_where_it_is(nic):
    own = bytearray(1000)
    memory = nic.register(own)
    assert not memory.shareable
    with pytest.raises(BufferError):
        own.extend(b"more")
    memory[:2] = b"hi"
    assert own[:2] == b"hi"
    del memory
    gc.collect()
    own.extend(b"more")


def test_what_can_not_be_written_is_not_registered(nic):
    with pytest.raises(BufferError):
        nic.register(b"constant")


def test_slices_say_what_is_wrong(nic):
    memory = nic.allocate(4096)
    with pytest.raises(ValueError, match="3 bytes into 4"):
        memory[:4] = b"abc"
    with pytest.raises(ValueError, match="no step"):
        memory[::2]
    with pytest.raises(ValueError, match="not inside"):
        memory.remote(4000, 97)
    with pytest.raises(ValueError, match="16 bytes"):
        viaduct.RemoteSegment.from_bytes(b"short")
    assert len(memory[5000:]) == 0


def test_what_is_posted_holds_its_memory(nic, pair):
    one, two = pair()
    source = bytearray(b"still there" * 2)
    own = bytearray(4096)
    alive = weakref.ref(nic.register(own)[:64].memory)
    gc.collect()
    assert alive() is None  # nobody has it
    two.post_receive(nic.register(own)[:64])
    one.send(nic.register(source)[:11])
    gc.collect()
    with pytest.raises(BufferError):
        own.clear()  # the receive under way holds it
    assert two.wait_receive(TIMEOUT).check().data == b"still there"
    one.wait_send(TIMEOUT).check()
    gc.collect()
    own.clear()


def test_objects_may_go_in_any_order(service):
    import threading

    def make():
        nic = viaduct.Nic("shm0")
        nic.quiet()
        tag = nic.create_tag()
        queue = nic.create_completion_queue(8)
        memory = nic.allocate(4096, tag=tag)
        one = nic.create_vi(tag=tag, send_queue=queue)
        two = nic.create_vi(tag=tag, receive_queue=queue)
        thread = threading.Thread(target=lambda: nic.listen(service).accept(two, TIMEOUT))
        thread.start()
        one.connect(service, TIMEOUT)
        thread.join(TIMEOUT)
        two.post_receive(memory[:8])
        two.post_receive(memory[8:16])
        one.send(memory[16:24])
        return {"nic": nic, "tag": tag, "queue": queue, "memory": memory, "one": one, "two": two}

    names = ["nic", "tag", "queue", "memory", "one", "two"]
    for turn in range(len(names)):
        objects = make()
        for name in names[turn:] + names[:turn]:
            del objects[name]
            gc.collect()
        objects = make()
        for name in reversed(names[turn:] + names[:turn]):
            del objects[name]
            gc.collect()


def test_closed_objects_say_so(nic):
    vi = nic.create_vi()
    with vi:
        assert vi.state == "idle"
    assert vi.closed and "closed" in repr(vi)
    vi.close()  # once more does no harm
    with pytest.raises(viaduct.Error, match="VI that was closed"):
        vi.poll_send()
    queue = nic.create_completion_queue(4)
    queue.close()
    with pytest.raises(viaduct.Error, match="completion queue that was closed"):
        queue.poll()
    other = viaduct.Nic("shm0")
    memory = other.allocate(4096)
    other.close()
    memory[:1] = b"x"  # what was made on it holds it
    with pytest.raises(viaduct.Error, match="NIC that was closed"):
        other.allocate(1)
