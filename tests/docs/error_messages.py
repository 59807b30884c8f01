#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Finds every sentence with which Viaduct says that something went wrong, in the sources themselves.

A sentence is what stands behind a base::Code, in system_error(), in the tools' misuse() and refuse(),
and in a log line of warning or error. What is put in at run time is written as one ellipsis.
"""
import re
import sys
from pathlib import Path

GAP = "…"
OPENING, CLOSING = "([{", ")]}"


def tokens(source):
    """Literals, names and single characters of C++; comments are left out."""
    scanner = re.compile(
        r'//[^\n]*|/\*.*?\*/|(?P<raw>R"(?P<mark>[^()\s]*)\((?P<inside>.*?)\)(?P=mark)")'
        r'|"(?P<text>(?:[^"\\]|\\.)*)"|(?<![0-9A-Za-z_])\'(?P<character>(?:[^\'\\]|\\.))\''
        r"|(?P<name>[A-Za-z_]\w*|[0-9][\w'.]*)|(?P<sign>\S)",
        re.DOTALL,
    )
    for match in scanner.finditer(source):
        kind = match.lastgroup
        if match.group("raw"):
            yield "text", match.group("inside"), match.start()
        elif match.group("text") is not None:
            yield "text", match.group("text"), match.start()
        elif match.group("character") is not None:
            yield "text", match.group("character"), match.start()
        elif kind in ("name", "sign"):
            yield kind, match.group(kind), match.start()


def argument(all_tokens, begin):
    """The tokens of one argument, and the place of the comma or bracket behind it."""
    depth = 0
    for place in range(begin, len(all_tokens)):
        kind, value, _ = all_tokens[place]
        if kind == "sign":
            if value in OPENING:
                depth += 1
            elif depth == 0 and value in CLOSING + ",;":
                return all_tokens[begin:place], place
            elif value in CLOSING:
                depth -= 1
    return all_tokens[begin:], len(all_tokens)


def alternatives(expression):
    """What an expression with or without ?: can be."""
    depth, question = 0, None
    for place, (kind, value, _) in enumerate(expression):
        if kind != "sign":
            continue
        if value in OPENING:
            depth += 1
        elif value in CLOSING:
            depth -= 1
        elif depth == 0 and value == "?" and question is None:
            question = place
        elif depth == 0 and value == ":" and question is not None:
            beside = {expression[place - 1][1], expression[place + 1][1]}
            if ":" not in beside:
                return alternatives(expression[question + 1 : place]) + alternatives(expression[place + 1 :])
    return [expression]


def sentence(expression):
    """Literals joined; everything that is only known at run time becomes a gap."""
    text, place = "", 0
    while place < len(expression):
        kind, value, _ = expression[place]
        follows = expression[place + 1][1] if place + 1 < len(expression) else ""
        if kind == "text":
            text += value
        elif kind == "name" and value in ("format", "string") and follows and follows in "({":
            first, _ = argument(expression, place + 2)
            text += sentence(first)
            _, place = group(expression, place + 1)
        elif kind == "sign" and value in OPENING:
            _, place = group(expression, place)
            text += GAP
        elif (kind == "sign" and value in "+:") or value in ("fmt", "std", "base"):
            pass
        else:
            text += GAP
        place += 1
    return text


def group(expression, begin):
    depth = 0
    for place in range(begin, len(expression)):
        kind, value, _ = expression[place]
        if kind == "sign" and value in OPENING:
            depth += 1
        elif kind == "sign" and value in CLOSING:
            depth -= 1
            if depth == 0:
                return expression[begin : place + 1], place
    return expression[begin:], len(expression)


def readable(text, printf):
    text = re.sub(r"%(?:l|z)*[a-z]" if printf else r"\{[^{}]*\}", GAP, text)
    text = text.replace('\\"', '"').replace("\\n", " ")
    text = re.sub(f"(?:{GAP}[ ']*)*{GAP}", lambda run: GAP if " " not in run.group() else run.group(), text)
    return " ".join(text.split())


def expressions(all_tokens):
    """Where the sources make a sentence of an error."""
    values = [value for _, value, _ in all_tokens] + [""] * 6
    for place, value in enumerate(values):
        if value == "Code" and values[place + 1 : place + 3] == [":", ":"] and values[place + 4] == ",":
            yield place, argument(all_tokens, place + 5)[0]
        elif value in ("system_error", "VIA_OFI_WARN") and values[place + 1] == "(":
            first, comma = argument(all_tokens, place + 2)
            if comma < len(all_tokens) and values[comma] == ",":
                yield place, argument(all_tokens, comma + 1)[0]
        elif value in ("misuse", "refuse") and values[place + 1] == "(":
            yield place, argument(all_tokens, place + 2)[0]
        elif value in ("Warning", "Error") and values[place + 1] == "," and "LogLevel" in values[place - 4 : place]:
            yield place, argument(all_tokens, place + 2)[0]


def messages(root):
    """Each sentence with the places where it is made."""
    found = {}
    for folder in ("src", "tools"):
        for path in sorted((root / folder).rglob("*.[ch]pp")):
            source = path.read_text()
            for place, expression in expressions(all_tokens := list(tokens(source))):
                for choice in alternatives(expression):
                    text = readable(sentence(choice), all_tokens[place][1] == "VIA_OFI_WARN")
                    if len(re.sub(r"[^A-Za-z]", "", text)) > 3:  # else it passes on another's sentence
                        line = source.count("\n", 0, all_tokens[place][2]) + 1
                        found.setdefault(text, []).append(f"{path.relative_to(root)}:{line}")
    return found


if __name__ == "__main__":
    for text, places in sorted(messages(Path(sys.argv[1])).items()):
        print(f"{text}\t{' '.join(places)}")
