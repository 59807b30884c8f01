# SPDX-License-Identifier: BSD-3-Clause
"""Messages and RDMA, between processes and inside one."""

import threading

import pytest

import viaduct

TIMEOUT = 20


def test_messages_go_to_another_process_and_back(nic, service, start_peer):
    process = start_peer("echo")
    memory = nic.allocate(8192)
    with nic.create_vi() as vi:
        there = vi.connect(service, TIMEOUT)
        assert there.reliability == viaduct.Reliability.DELIVERY
        assert vi.connected and vi.state == "connected"
        for length in (0, 1, 8, 100, 4096):
            text = bytes(i * 7 % 256 for i in range(length))
            vi.post_receive(memory[4096:])
            memory[:length] = text
            vi.send(memory[:length], immediate=length)
            sent = vi.wait_send(TIMEOUT).check()
            assert sent.operation == "send" and sent.length == length and not sent.receive
            answer = vi.wait_receive(TIMEOUT).check()
            assert answer.data == text
            assert answer.immediate == length + 1
            assert answer.operation == "receive" and answer.receive and answer.vi is vi
    assert process.wait(TIMEOUT) == 0


def test_rdma_to_another_process(nic, service, start_peer):
    process = start_peer("target")
    memory = nic.allocate(8192)
    with nic.create_vi() as vi:
        vi.post_receive(memory[:64])
        vi.post_receive(memory[4096:])
        vi.connect(service, TIMEOUT)
        offer = viaduct.RemoteSegment.from_bytes(vi.wait_receive(TIMEOUT).check().data)
        assert len(offer) == 16384
        pattern = bytes(i * 3 % 251 for i in range(1000))
        memory[1000:2000] = pattern
        # Out of several pieces, and with a note.
        vi.rdma_write(offer, [memory[1000:1500], memory[1500:2000]], immediate=77)
        assert vi.wait_send(TIMEOUT).check().operation == "rdma_write"
        seen = vi.wait_receive(TIMEOUT).check()
        assert seen.immediate == 77 and seen.data == pattern
        vi.rdma_read(offer.after(100), memory[3000:3400])
        assert vi.wait_send(TIMEOUT).check().data == pattern[100:500]
        # What was not offered is refused.
        vi.rdma_read(viaduct.RemoteSegment(0, offer.handle, 8), memory[:8])
        failed = vi.wait_send(TIMEOUT)
        assert not failed.ok
        assert "does not allow" in failed.error_text
        with pytest.raises(viaduct.Error, match="rdma_read.*does not allow"):
            failed.check()
    assert process.wait(TIMEOUT) == 0


def test_a_completion_queue_serves_several(nic, pair):
    queue = nic.create_completion_queue(16)
    one, two = pair(second={"receive_queue": queue})
    memory = nic.allocate(4096)
    two.post_receive(memory[:100])
    two.post_receive(memory[100:200])
    assert queue.poll() is None
    memory[1000:1003] = b"abc"
    one.send(memory[1000:1003])
    done = queue.wait(TIMEOUT)
    assert done.receive and done.vi is two and done.data == b"abc"
    with pytest.raises(viaduct.Error, match="completion queue") as caught:
        two.wait_receive(0)
    assert caught.value.name == "VIP_INVALID_PARAMETER"
    two.disconnect()
    assert not queue.wait(TIMEOUT).ok  # the second receive, flushed
    with pytest.raises(viaduct.Timeout):
        queue.wait(0)


def test_peers_connect_crosswise(nic, service):
    one, two = nic.create_vi(), nic.create_vi()
    here, there = nic.address(service + "-a"), nic.address(service + "-b")
    thread = threading.Thread(target=lambda: two.connect_peer(there, here, TIMEOUT))
    thread.start()
    one.connect_peer(here, there, TIMEOUT)
    thread.join(TIMEOUT)
    assert one.connected and two.connected


def test_a_request_can_be_rejected(nic, service):
    def answer():
        nic.listen(service).wait(TIMEOUT).reject()

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(viaduct.Error) as caught:
        nic.create_vi().connect(service, TIMEOUT)
    thread.join(TIMEOUT)
    assert caught.value.name == "VIP_REJECT" and caught.value.code != 0


def test_more_operations_than_descriptors_at_first(nic, pair):
    one, two = pair()
    memory = nic.allocate(4096)
    for i in range(100):
        two.post_receive(memory[8 * i:8 * i + 8])
    for i in range(100):
        memory[4000:4008] = i.to_bytes(8, "little")
        one.send(memory[4000:4008])
        one.wait_send(TIMEOUT).check()
    for i in range(100):
        assert two.wait_receive(TIMEOUT).check().data == i.to_bytes(8, "little")
