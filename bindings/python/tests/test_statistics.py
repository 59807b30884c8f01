# SPDX-License-Identifier: BSD-3-Clause
"""Counters and settings are those that the tool shows."""

import ast
import inspect
import json
import os
import pathlib
import subprocess

import viaduct

TIMEOUT = 20
TOOL = os.environ["TOOL_UNDER_TEST"]


def shown_by_the_tool(*arguments):
    output = subprocess.run([TOOL, *arguments], check=True, stdout=subprocess.PIPE, text=True,
                            timeout=TIMEOUT)
    return json.loads(output.stdout)


def without_time(process):
    return {name: value for name, value in process.items() if name != "attached_seconds"}


def test_counters_are_those_of_the_tool(nic, service, start_peer):
    process = start_peer("still")
    memory = nic.allocate(4096)
    with nic.create_vi() as vi:
        vi.post_receive(memory[:64])
        vi.connect(service, TIMEOUT)
        for _ in range(7):
            vi.send(memory[64:72])
            vi.wait_send(TIMEOUT).check()
            vi.wait_receive(TIMEOUT).check()
            vi.post_receive(memory[:64])
        assert process.stdout.readline() == "still\n"
        [peer] = viaduct.counters(str(process.pid))
        [same] = shown_by_the_tool("stat", "--once", "--json", str(process.pid))["processes"]
        assert without_time(peer) == without_time(same)
        assert peer["pid"] == process.pid and peer["totals"]["sent_messages"] == 7
        [own] = viaduct.counters(str(os.getpid()))
        [entry] = [one for one in own["vis"] if one["peer_pid"] == process.pid]
        assert entry["received_messages"] == 7 and entry["sent_bytes"] == 56
        assert {process.pid, os.getpid()} <= {one["pid"] for one in viaduct.counters()}


def test_nobody_of_that_name():
    assert viaduct.counters("a program that nobody runs") == []


def test_settings_are_those_of_the_tool():
    shown = {one["name"]: one["value"] for one in shown_by_the_tool("config", "--json")["settings"]}
    mine = viaduct.settings()
    assert mine and mine.items() <= shown.items()


def test_the_stub_names_what_the_module_has():
    stub = pathlib.Path(__file__).parent.parent / "viaduct.pyi"
    named = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            members = getattr(node, "body", [])
            named[node.name] = {one.name for one in members if isinstance(one, ast.FunctionDef)}
    public = {name for name in vars(viaduct) if not name.startswith("_")}
    assert public == set(named)
    for name in public - {"Reliability"}:
        thing = getattr(viaduct, name)
        assert inspect.getdoc(thing)
        if not inspect.isclass(thing) or issubclass(thing, Exception):
            continue
        has = {member for member in vars(thing) if not member.startswith("_")}
        assert has == {member for member in named[name] if not member.startswith("_")}, name
