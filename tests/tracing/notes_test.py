# SPDX-License-Identifier: BSD-3-Clause
"""notes_test.py library: every probe is in the library's notes, with its arguments, and is a nop."""

import platform
import re
import subprocess
import sys

# The sizes of the arguments.
PROBES = {"post": "8 8 4 4", "doorbell": "8 4", "send": "8 8 ? 4 4", "receive": "8 8 ? 4 4",
          "complete": "8 8 4 4"}
# At least so often: send and receive queue, each way of a message, each device.
LEAST = {"post": 2, "doorbell": 2, "send": 5, "receive": 5, "complete": 3}
REGISTER = r"%[a-z0-9]+" if platform.machine() == "x86_64" else r"[a-z0-9]+"
PLACE = {"x86_64": rf"(\$-?\d+|{REGISTER}|-?\d*\({REGISTER}(,{REGISTER}(,\d)?)?\))",
         "aarch64": rf"(-?\d+|{REGISTER}|\[{REGISTER}(, ?-?\d+)?\])"}


def fail(what):
    sys.exit(f"notes_test: {what}")


def text_section(library):
    """Its address, its place in the file, its size."""
    output = subprocess.run(["readelf", "-SW", library], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    found = re.search(r"\.text\s+PROGBITS\s+([0-9a-f]+) ([0-9a-f]+) ([0-9a-f]+)", output)
    return [int(one, 16) for one in found.groups()]


def main(library):
    output = subprocess.run(["readelf", "-nW", library], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    found = re.findall(r"Provider: viaduct\n\s+Name: (\S+)\n\s+Location: 0x([0-9a-f]+), "
                       r"Base: 0x([0-9a-f]+), Semaphore: 0x0+\n\s+Arguments: (.*)\n", output)
    if len(found) != output.count("Provider: viaduct"):
        fail(f"notes that can not be read:\n{output}")
    address, offset, size = text_section(library)
    with open(library, "rb") as file:
        code = file.read()[offset:offset + size]
    split = re.compile(r"(?:^| )(?=\d+@)")
    for name, location, _, arguments in found:
        if name not in PROBES:
            fail(f"an unknown probe {name}")
        parts = [one for one in split.split(arguments) if one]
        sizes = PROBES[name].split()
        if len(parts) != len(sizes):
            fail(f"{name} has other arguments: {arguments}")
        for part, wanted in zip(parts, sizes):
            size_of, _, place = part.partition("@")
            if wanted not in ("?", size_of) or not re.fullmatch(PLACE[platform.machine()], place):
                fail(f"{name}: what is {part!r} of {arguments!r}?")
        at = int(location, 16) - address
        if not 0 <= at < len(code):
            fail(f"{name} is outside the code")
        if platform.machine() == "x86_64" and code[at] != 0x90:
            fail(f"{name} is no nop")
    for name, least in LEAST.items():
        count = sum(one[0] == name for one in found)
        if count < least:
            fail(f"{name} is there {count} times, which is less than {least}")
        print(f"{name}: {count} places")


main(sys.argv[1])
