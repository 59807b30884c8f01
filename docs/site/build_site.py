#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes the site of the project's Markdown documents: build_site.py SOURCE FOLDER VERSION

One pandoc for each page. Links between documents become links between pages; a link to a source file
becomes its name, since the site does not carry the sources.
"""
import html
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path


def menu_of(source):
    """[(section, [(document, title)])] as pages.txt has it, and the manual pages behind."""
    sections = []
    for line in (source / "docs/site/pages.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        if line.startswith(" "):
            document, title = line.strip().split(" ", 1)
            sections[-1][1].append((document, title))
        else:
            sections.append((line, []))
    manuals = sorted((source / "docs/man").glob("*.[1-9].md"), key=lambda page: (page.name.split(".")[-2], page.name))
    pages = []
    for page in manuals:
        name, section = page.name[: -len(".md")].rsplit(".", 1)
        pages.append((f"docs/man/{page.name}", f"{name}({section})"))
    sections.append(("Manual pages", pages))
    return sections


def page_of(document):
    """Where a document lies on the site."""
    return "index.html" if document == "README.md" else re.sub(r"\.md$", ".html", document.removeprefix("docs/"))


def menu_html(sections, current):
    here = os.path.dirname(page_of(current))
    parts = []
    for section, pages in sections:
        parts.append(f"<h2>{html.escape(section)}</h2>\n<ul>")
        for document, title in pages:
            mark = ' aria-current="page"' if document == current else ""
            address = os.path.relpath(page_of(document), here or ".")
            parts.append(f'<li><a href="{address}"{mark}>{html.escape(title)}</a></li>')
        parts.append("</ul>")
    return "\n".join(parts)


def relinked(text, document, known, source):
    """Links of the page, as the site has them."""
    folder = os.path.dirname(document)
    here = os.path.dirname(page_of(document))

    def link(match):
        before, address, inside = match.group(1), match.group(2), match.group(3)
        if re.match(r"[a-z]+:|#", address):
            return match.group(0)
        path, mark, anchor = address.partition("#")
        target = os.path.normpath(os.path.join(folder, path))
        if target in known:
            new = os.path.relpath(page_of(target), here or ".") + mark + anchor
            return f'<a {before}href="{new}"{inside}'
        if (source / target).exists():  # a source file, a folder
            return f'<a {before}data-source="{html.escape(target)}"{inside}'
        sys.exit(f"{document} links to {address}, which is not there")

    return re.sub(r'<a\s([^>]*?)href="([^"]*)"([^>]*>)', link, text)


def main():
    source, folder, version = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    sections = menu_of(source)
    documents = [document for _, pages in sections for document, _ in pages]
    titles = {document: title for _, pages in sections for document, title in pages}
    template = (source / "docs/site/template.html").read_text()
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    shutil.copy(source / "docs/site/style.css", folder)

    def make(document):
        made = subprocess.run(
            ["pandoc", "-f", "gfm+definition_lists" if "/man/" not in document else "markdown", "-t", "html5", "--no-highlight",
             "--wrap=none"],
            input=(source / document).read_bytes(), capture_output=True, check=False,
        )
        if made.returncode != 0:
            sys.exit(f"pandoc does not take {document}: {made.stderr.decode()}")
        body = relinked(made.stdout.decode(), document, set(documents), source)
        if "/man/" in document:
            body = f"<h1>{html.escape(titles[document])}</h1>\n" + body
        root = "../" * page_of(document).count("/")
        page = template
        for name, value in {"pagetitle": html.escape(titles[document]), "root": root, "version": html.escape(version),
                            "menu": menu_html(sections, document), "body": body}.items():
            page = page.replace(f"${name}$", value)
        target = folder / page_of(document)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page)
        # Pictures that the page shows lie beside it as they lie beside the document.
        for picture in re.findall(r'<img\s[^>]*src="([^":]+)"', body):
            origin = source / os.path.dirname(document) / picture
            copy = target.parent / (picture if document != "README.md" else picture.removeprefix("docs/"))
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(origin, copy)

    with ThreadPoolExecutor(os.cpu_count()) as workers:
        list(workers.map(make, documents))
    index = folder / "index.html"  # README lies above docs/, its page does not
    index.write_text(re.sub(r'(<img\s[^>]*src=")docs/', r"\1", index.read_text()))
    print(f"{len(documents)} pages in {folder}")


main()
