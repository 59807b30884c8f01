# SPDX-License-Identifier: BSD-3-Clause
"""bpftrace_test.py library tool scripts: bpftrace counts every message of a real ping-pong. Only counts
are looked at, no times."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

SKIPPED = 77
TIMEOUT = 60
LIBRARY, TOOL = pathlib.Path(sys.argv[1]), sys.argv[2]
SCRIPTS = pathlib.Path(sys.argv[3])


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def fail(what):
    sys.exit(f"bpftrace_test: {what}")


def look_whether_it_may_trace(library):
    if shutil.which("bpftrace") is None:
        skip("there is no bpftrace (package bpftrace)")
    if os.geteuid() != 0:
        skip("tracing needs root")
    if not any(os.access(f"{folder}/uprobe_events", os.W_OK)
               for folder in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")):
        skip("the kernel has no uprobes here, or tracefs is not mounted")
    try:
        tried = subprocess.run(["bpftrace", "-e", f"usdt:{library}:viaduct:post {{ @ = count(); }} "
                                "interval:ms:1 { exit(); }"], text=True, timeout=TIMEOUT,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    except subprocess.TimeoutExpired:
        skip("bpftrace does not end")
    if tried.returncode != 0:
        skip(f"bpftrace may not trace here: {tried.stdout.strip()}")


def traced(script, library, command, environment):
    """What the script prints at the end about what the command did."""
    tracer = subprocess.Popen(["bpftrace", str(SCRIPTS / script), str(library)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = []
        # Printed when everything is attached; the deadline is that of the test.
        for line in tracer.stdout:
            said.append(line)
            if "Watching" in line:
                break
        else:
            fail(f"{script} did not begin:\n{''.join(said)}")
        subprocess.run(command, env=environment, check=True, timeout=TIMEOUT,
                       stdout=subprocess.DEVNULL)
        tracer.send_signal(signal.SIGINT)
        return tracer.communicate(timeout=TIMEOUT)[0]
    finally:
        tracer.kill()
        tracer.wait()


def histogram_total(output, name):
    """How often @name was measured."""
    part = re.search(rf"@{name}: *\n((?:[\[(].*\n)+)", output)
    if part is None:
        fail(f"there is no histogram @{name}:\n{output}")
    return sum(int(one) for one in re.findall(r"[\])] +(\d+) \|", part.group(1)))


def sum_of(output, name):
    return sum(int(one) for one in re.findall(rf"^@{name}\[.*\]: (\d+)$", output, re.MULTILINE))


def main():
    with tempfile.TemporaryDirectory() as folder:
        # A copy, since probes are of a file: other programs that run now are not counted.
        library = pathlib.Path(folder) / "libvipl.so.1"
        shutil.copy(LIBRARY, library)
        look_whether_it_may_trace(library)
        environment = dict(os.environ, LD_LIBRARY_PATH=folder)

        def messages_of(script, size, iterations, count):
            command = [TOOL, "pingpong", "--device", "shm0", "--repetitions", "1", "--warmup", "16",
                       "--iterations", str(iterations), "--bytes", size]
            return count(traced(script, library, command, environment))

        def in_both_histograms(output):
            """Every message that is posted is sent once, done once and received once."""
            posted = histogram_total(output, "post_to_complete_ns")
            received = histogram_total(output, "send_to_receive_ns")
            if posted != received:
                fail(f"{posted} sends were done, but {received} received:\n{output}")
            return posted

        # What the tool sends to begin and to end is the same each time.
        few = messages_of("latency.bt", "8", 320, in_both_histograms)
        many = messages_of("latency.bt", "8", 960, in_both_histograms)
        if many - few != 2 * (960 - 320):
            fail(f"320 round trips were {few} messages, and 960 were {many}")
        counted = messages_of("messages.bt", "8", 320,
                              lambda text: [sum_of(text, "sent"), sum_of(text, "received")])
        if counted != [few, few]:
            fail(f"messages.bt has {counted} sent and received, latency.bt has {few}")
        # Through the ring, and by one copy, of which the sender learns later.
        for size in ("1k", "64k"):
            if messages_of("latency.bt", size, 320, in_both_histograms) < 2 * 320:
                fail(f"of messages of {size} some are missing")
        print(f"{few} and {many} messages were traced")


main()
