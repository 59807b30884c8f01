#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""No link of a document leads nowhere, every document is on the site, and every file that is named is there."""
import re
import sys
from pathlib import Path

root = Path(sys.argv[1])
documents = sorted({root / "README.md", root / "CONTRIBUTING.md", root / "CHANGELOG.md", *root.glob("docs/**/*.md")})
problems = []


def without_code(text):
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"^(?: {4}|\t).*$", "", text, flags=re.MULTILINE)


def anchors(document):
    """The names that a Markdown reader gives to headings."""
    names = set()
    for heading in re.findall(r"^#+ +(.+)$", re.sub(r"^```.*?^```", "", document.read_text(), flags=re.M | re.S), re.M):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        names.add(name)
    return names


for document in documents:
    text = re.sub(r"`[^`]*`", "", without_code(document.read_text()))
    for address in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", address):
            if not address.startswith("https://"):
                problems.append(f"{document.relative_to(root)}: {address} is not https")
            continue
        path, _, anchor = address.partition("#")
        target = (document.parent / path).resolve() if path else document
        if not target.exists():
            problems.append(f"{document.relative_to(root)}: {address} is not there")
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            problems.append(f"{document.relative_to(root)}: {address}: no such heading")
    # Files in backquotes, as the tables of the design name them; a star or "..." stands for several.
    for name in re.findall(r"`((?:src|tools|tests|include|bench|examples|contrib|cmake|docs)/[\w./*+-]*)`", document.read_text()):
        if "NAME" in name:
            continue
        pattern = name.rstrip("/").removesuffix(".*")
        if not (root / pattern).exists() and not list(root.glob(pattern + ".*")) and not list(root.glob(pattern + "*")):
            problems.append(f"{document.relative_to(root)} names {name}, which is not there")

listed = {line.split()[0] for line in (root / "docs/site/pages.txt").read_text().splitlines() if line.startswith(" ")}
for document in documents:
    name = str(document.relative_to(root))
    if not name.startswith("docs/man/") and name not in listed:
        problems.append(f"{name} is on no page of the site (docs/site/pages.txt)")
for name in listed:
    if not (root / name).exists():
        problems.append(f"docs/site/pages.txt names {name}, which is not there")

print("\n".join(problems) or f"{len(documents)} documents, all links lead somewhere")
sys.exit(bool(problems))
