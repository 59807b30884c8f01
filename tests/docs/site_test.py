#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The built site: every link and picture is there, anchors too, and nothing is fetched from elsewhere."""
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

folder = Path(sys.argv[1])


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.fetched, self.headings = set(), [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if "id" in values:
            self.names.add(values["id"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in ("img", "script", "link", "iframe"):
            self.fetched.append(values.get("src") or values.get("href"))
        if tag == "img" and not values.get("alt"):
            self.fetched.append("a picture without a text for it")
        self.headings += tag == "h1"


pages = {path: Page(path.read_text()) for path in folder.rglob("*.html")}
problems = []
for path, page in pages.items():
    name = path.relative_to(folder)
    if page.headings == 0:
        problems.append(f"{name} has no heading")
    for address in page.fetched:
        if not (path.parent / str(address)).exists():
            problems.append(f"{name} shows {address}, which is not there")
    for address in page.links:
        if address.startswith("https://"):
            continue
        target, anchor = urldefrag(address)
        other = (path.parent / unquote(target)).resolve() if target else path
        if other not in pages:
            problems.append(f"{name} links to {address}, which is not there")
        elif anchor and unquote(anchor) not in pages[other].names:
            problems.append(f"{name} links to {address}: no such place")
print("\n".join(problems) or f"{len(pages)} pages, all links lead somewhere")
sys.exit(bool(problems) or len(pages) < 30)
