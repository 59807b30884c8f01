#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every sentence of an error has its entry in docs/troubleshooting.md, and none there is out of date."""
import re
import sys
from pathlib import Path

from error_messages import expressions, messages, readable, sentence, tokens

root = Path(sys.argv[1])


def found_in(source):
    whole = list(tokens(source))
    return [readable(sentence(expression), False) for _, expression in expressions(whole)]


# The finder itself, on what it must see: a test that finds nothing would always pass.
for source, wanted in {
    'return {Code::Timeout, "no answer from " + name + " in time"};': "no answer from … in time",
    'return base::system_error(errno, fmt::format("opening {} (of {})", a, b(1)));': "opening … (of …)",
    'log(LogLevel::Error, "cannot" /* not this */ " go");': "cannot go",
}.items():
    if found_in(source) != [wanted]:
        sys.exit(f"the finder of sentences made {found_in(source)} of {source}")

entries = set(re.findall(r"^- (?:``(.+?)``|`(.+?)`)$", (root / "docs/troubleshooting.md").read_text(), re.MULTILINE))
entries = {double or single for double, single in entries}
said = messages(root)
missing = sorted(said.keys() - entries)
stale = sorted(entries - said.keys())
for text in missing:
    print(f"no entry in docs/troubleshooting.md: - `{text}`   ({', '.join(said[text])})")
for text in stale:
    print(f"docs/troubleshooting.md has an entry that nothing says any more: {text}")
print(f"{len(said)} sentences, {len(missing)} without an entry, {len(stale)} entries out of date")
sys.exit(bool(missing or stale))
