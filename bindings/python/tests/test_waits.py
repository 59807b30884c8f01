# SPDX-License-Identifier: BSD-3-Clause
"""Errors, waits, and other threads during them."""

import contextlib
import signal
import threading

import pytest

import viaduct

TIMEOUT = 20


def test_errors_have_a_sentence_and_a_code():
    with pytest.raises(viaduct.Error, match="nosuch") as caught:
        viaduct.Nic("nosuch")
    assert caught.value.name.startswith("VIP_") and caught.value.code != 0
    assert isinstance(caught.value, RuntimeError)


def test_a_wait_in_vain_is_a_timeout(nic, service, pair):
    one, _ = pair()
    with pytest.raises(viaduct.Error, match="post one first") as caught:
        one.wait_receive(0)
    assert caught.value.name == "VIP_DESCRIPTOR_ERROR"
    one.post_receive(nic.allocate(4096))
    with pytest.raises(viaduct.Timeout, match="waiting for a receive: none ended within 1 ms"):
        one.wait_receive(0.001)
    with pytest.raises(TimeoutError):
        nic.listen(service).wait(0)
    with pytest.raises(ValueError, match="timeout"):
        one.wait_receive(-1)


def test_wrong_arguments_are_explained(nic, pair):
    one, _ = pair()
    with pytest.raises(TypeError, match="must be registered.*bytes"):
        one.send(b"not registered")
    with pytest.raises(TypeError, match="not of lists"):
        one.send([[nic.allocate(4096)]])
    with pytest.raises(TypeError):
        one.send(nic.allocate(4096), immediate="seven")
    with pytest.raises(TypeError):
        one.send(nic.allocate(4096), immediate=2**32)
    memory = nic.allocate(4096)
    with pytest.raises(viaduct.Error, match="segments"):
        one.send([memory[i:i + 1] for i in range(9)])
    foreign = nic.allocate(4096, tag=nic.create_tag())
    one.send(foreign[:8])
    assert "not registered for this VI" in one.wait_send(TIMEOUT).error_text


def test_other_threads_run_during_a_wait(nic, pair):
    one, two = pair()
    memory = nic.allocate(4096)
    two.post_receive(memory[:8])
    waits = threading.Event()

    def send():
        # Only when this thread runs can the other's wait end.
        assert waits.wait(TIMEOUT)
        memory[8:16] = b"from one"
        one.send(memory[8:16])

    thread = threading.Thread(target=send)
    thread.start()
    waits.set()
    assert two.wait_receive(None).check().data == b"from one"
    thread.join(TIMEOUT)


@contextlib.contextmanager
def soon(handler):
    """Calls the handler during the wait that follows."""
    before = signal.signal(signal.SIGALRM, lambda *_: handler())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_signal_ends_a_wait(nic, pair):
    _, two = pair()
    two.post_receive(nic.allocate(4096))

    class Interrupted(Exception):
        pass

    def interrupt():
        raise Interrupted

    with soon(interrupt), pytest.raises(Interrupted):
        two.wait_receive(None)


def test_a_vi_is_not_closed_under_who_waits(nic, pair):
    _, two = pair()
    two.post_receive(nic.allocate(4096))
    with soon(two.close), pytest.raises(viaduct.Error, match="waits for it: disconnect it first"):
        two.wait_receive(None)
    with soon(two.disconnect):
        assert not two.wait_receive(None).ok  # flushed
    two.close()
