#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""manual_pages_test.py SOURCE FOLDER: each document is a manual page too, and man(1) takes all pages without a complaint."""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

source, folder = Path(sys.argv[1]), Path(sys.argv[2])
names = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": "", "MANPAGER": "cat"}
expected = [f"man7/viaduct-{document.stem}.7" for document in source.glob("docs/*.md")]
expected += [f"man{page.name.split('.')[-2]}/{page.name[:-len('.md')]}" for page in source.glob("docs/man/*.[1-9].md")]


def problems_of(page):
    file = folder / page
    if not file.exists():
        return [f"{page} is not there"]
    shown = subprocess.run(["man", "--warnings", "--nh", "--nj", "-l", str(file)], env=names, capture_output=True, text=True, timeout=60)
    said = [line for line in shown.stderr.splitlines() if not re.search("adjust line|break line", line)]  # a long word; lintian takes it too
    name = file.name.rsplit(".", 1)[0]
    text = re.sub(r".\x08", "", shown.stdout)
    if not re.search(rf"^NAME\n +.*{re.escape(name)}\b.*\s-\s+\S", text, re.M | re.S):
        said.append("the NAME section does not name it")
    return [f"{page}: {line}" for line in said]


with ThreadPoolExecutor(os.cpu_count()) as workers:
    problems = [problem for some in workers.map(problems_of, sorted(expected)) for problem in some]
print("\n".join(problems) or f"{len(expected)} manual pages")
sys.exit(bool(problems) or not expected)
