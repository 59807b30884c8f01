#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""web_browser_test.py via: the page of `via web` in Chromium, from end to end. Exit status 77: something is missing."""

import contextlib
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import Select
except ImportError:
    print("python3-selenium is not installed")
    sys.exit(77)

VIA = sys.argv.pop(1)
PATIENCE = 60


def until(what, ask):
    """Asks again and again for something true, and gives it back."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = ask()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError("it did not come to this in time: " + what)
        time.sleep(0.05)


def via(*arguments, check=True):
    return subprocess.run([VIA, *arguments], check=check, capture_output=True, text=True, timeout=PATIENCE).stdout


class Started:
    """A run of the tool in a process group of its own, ended with the block."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([VIA, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True)

    def first_line(self):
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        assert ready, "the tool said nothing"
        return self.process.stdout.readline()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for end in (signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, end)
            if end != signal.SIGCONT:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(15)
        self.process.stdout.close()


def start_browser(folder):
    options = Options()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server",
                     "--no-first-run", "--disable-extensions", "--disable-background-networking",
                     "--user-data-dir=" + folder + "/profile", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service(shutil.which("chromedriver"), log_path=folder + "/driver.log"), options=options)
    browser.set_page_load_timeout(PATIENCE)
    browser.set_script_timeout(PATIENCE)
    return browser


class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="via-web-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        os.environ["HOME"] = cls.folder
        os.environ["VIA_AGENT_SOCKET"] = "@viaduct/test/web/%d" % os.getpid()
        cls.addClassCleanup(via, "agent", "stop", check=False)
        cls.browser = start_browser(cls.folder)
        cls.addClassCleanup(cls.browser.quit)

    def setUp(self):
        # What the page of the test before says of its server's end is no complaint.
        self.browser.get("about:blank")
        self.browser.get_log("browser")

    # ---- helpers ----

    def serve(self, *arguments):
        """Starts `via web` for this test."""
        web = Started("web", "--json", *arguments)
        self.enterContext(web)
        told = json.loads(web.first_line())
        self.assertEqual(told["pid"], web.process.pid)
        self.assertTrue(told["address"].startswith("http://127.0.0.1:%d/%s/" % (told["port"], told["token"])))
        self.web = web
        self.address = told["address"]
        return told

    def open(self):
        self.browser.get(self.address)
        until("the page is live", lambda: self.find("#status[data-state='live']"))

    def find(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def script(self, text, *arguments):
        return self.browser.execute_script(text, *arguments)

    def cell(self, table, pid, name):
        """The number in a cell, as the page has got it."""
        value = self.script("const cell = document.querySelector(arguments[0]); return cell ? cell.dataset.value : null;",
                            "#%s tr[data-pid='%d'] [data-name='%s']" % (table, pid, name))
        return None if value is None else int(float(value))

    def looks(self):
        return int(self.script("return document.body.dataset.looks || '0';"))

    def theme_is_dark(self):
        colour = self.script("return getComputedStyle(document.body).backgroundColor;")
        return sum(int(number) for number in re.findall(r"\d+", colour)[:3]) < 200

    def assert_no_complaints(self):
        said = [entry["message"] for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE"]
        self.assertEqual(said, [])

    # ---- tests ----

    def test_numbers_agree_with_stat(self):
        self.serve()
        self.open()
        until("the page says what to start", lambda: self.find("#nobody:not([hidden])"))
        with Started("window", "--device", "shm0", "--bytes", "4096", "--seconds", "120", "--repetitions", "1"):
            def sending():
                processes = json.loads(via("stat", "--once", "--json"))["processes"]
                busy = [one for one in processes if one.get("totals", {}).get("sent_messages", 0) > 1000]
                return processes if busy else None
            until("a stream runs", sending)
            until("the page shows traffic", lambda: self.find("#devices tr[data-device='shm0']"))
            until("the chart has a line", lambda: self.find("#live-chart path.curve"))

            # Two updates a second, and what they cost the server: its processor time for each look.
            begun, cpu = self.looks(), self.cpu_seconds()
            until("twenty looks", lambda: self.looks() >= begun + 20)
            spent = (self.cpu_seconds() - cpu) / (self.looks() - begun)
            print("via web spends %.2f ms of a core on a look; two a second are %.2f %%" % (spent * 1e3, spent * 200))
            self.assertLess(spent, 0.010, "two looks a second must cost less than 2 % of a core")

            # What stands still can be compared. Who was there at first may have left.
            pids = [one["pid"] for one in json.loads(via("stat", "--once", "--json"))["processes"] if "totals" in one]
            self.assertEqual(len(pids), 2, "both sides of the stream")
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)

            def still():
                one, other = (json.loads(via("stat", "--once", "--json"))["processes"] for _ in range(2))
                return other if [p.get("totals") for p in one] == [p.get("totals") for p in other] else None
            stat = {one["pid"]: one for one in until("the counters stand still", still) if "totals" in one}
            self.assertEqual(sorted(stat), sorted(pids))
            for pid, one in stat.items():
                for table, names in (("processes", ("sent_messages", "received_messages", "sent_bytes", "received_bytes")),
                                     ("rings", ("send_stalls", "big_ring_posts", "sleeps", "wakes_sent", "completed_in_error"))):
                    for name in names:
                        until("%s of %d is %d, not %s" % (name, pid, one["totals"][name], self.cell(table, pid, name)),
                              lambda: self.cell(table, pid, name) == one["totals"][name])
                self.assertEqual(self.cell("attached", pid, "registered_bytes"), one["registered_bytes"])
            self.assertGreater(sum(one["totals"]["sent_messages"] for one in stat.values()), 1000)
            agent = json.loads(via("agent", "status", "--json"))
            self.assertIn(str(agent["pid"]), self.find("#agents .card")[0].text)

            # The same for Prometheus.
            metrics = self.fetch(self.address + "metrics")
            for pid, one in stat.items():
                seen = sum(int(value) for value in re.findall(r'^via_sent_messages_total\{pid="%d".*\} (\d+)$' % pid, metrics, re.M))
                self.assertEqual(seen, one["totals"]["sent_messages"])
            checked = subprocess.run(["promtool", "check", "metrics"], input=metrics, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        until("the processes are gone", lambda: self.find("#nobody:not([hidden])"))
        self.assert_no_complaints()

    def cpu_seconds(self):
        fields = pathlib.Path("/proc/%d/stat" % self.web.process.pid).read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def fetch(self, address, **headers):
        request = urllib.request.Request(address, headers=headers)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.read().decode()

    def test_only_the_token_opens(self):
        told = self.serve()
        root = "http://127.0.0.1:%d/" % told["port"]
        for address, headers, status in ((root, {}, 401), (root + "metrics", {}, 401), (root + "0" * 32 + "/", {}, 401),
                                         (told["address"], {"Host": "evil.example"}, 403)):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                self.fetch(address, **headers)
            self.assertEqual(refused.exception.code, status)
            self.assertIn("error", json.loads(refused.exception.read()))
            refused.exception.close()
        self.assertIn("via_agent_up", self.fetch(root + "metrics", Authorization="Bearer " + told["token"]))

    def test_refuses_what_is_unsafe(self):
        exposed = subprocess.run([VIA, "web", "--listen", "0.0.0.0"], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(exposed.returncode, 1)
        self.assertIn("--expose", exposed.stderr)
        told = self.serve()
        taken = subprocess.run([VIA, "web", "--port", str(told["port"])], capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(taken.returncode, 1)
        self.assertIn("taken", taken.stderr)

    def test_simulator_draws(self):
        self.serve()
        self.open()
        self.find("nav a[href='#simulator']")[0].click()
        until("the first run is drawn", lambda: len(self.find("#gantt .gantt-bar")) > 10)
        until("curves are drawn", lambda: len(self.find("#curves svg path.curve")) >= 6)
        self.assertGreaterEqual(len(self.find("#curves svg .paper-point")), 4)
        Select(self.find("#sim-nic")[0]).select_by_value("lanai4")
        Select(self.find("#sim-firmware")[0]).select_by_value("bvia")
        size = self.find("#sim-bytes")[0]
        size.clear()
        size.send_keys("8192", Keys.ENTER)
        until("the run that was asked for", lambda: self.find("#gantt[data-run='p3-733 lanai4 bvia 8192 4']"))
        traced = json.loads(via("sim", "trace", "--machine", "p3-733", "--nic", "lanai4", "--firmware", "bvia", "--bytes", "8192",
                                "--messages", "4", "--json", "--results", self.folder + "/trace"))
        self.assertEqual(len(self.find("#gantt .gantt-bar")), len(traced["stages"]))
        self.assertIn("%.2f" % traced["total_us"], self.find("#sim-result")[0].text)
        until("the paper's numbers", lambda: "76.2" in self.find("#paper-card")[0].text)
        # One send of the study, beside the numbers of its tables.
        Select(self.find("#sim-firmware")[0]).select_by_value("User")
        until("the study's points", lambda: len(self.find("#curves svg .paper-point")) == 12)
        # The cursor says what is at work.
        self.find("#gantt-moment")[0].send_keys(*[Keys.ARROW_RIGHT] * 30)
        until("a moment", lambda: ":" in self.find("#gantt-now")[0].text.replace("At", "", 1))
        # What is wrong is said, and what is there stays.
        size = self.find("#sim-bytes")[0]
        size.clear()
        size.send_keys("99999999", Keys.ENTER)
        until("a sentence", lambda: "whole number from 1 to 1048576" in self.find("#sim-error")[0].text)
        self.assertGreater(len(self.find("#gantt .gantt-bar")), 1)

    def test_keyboard_phone_and_colours(self):
        self.serve()
        self.open()
        self.find("nav a[href='#simulator']")[0].click()
        until("the simulator", lambda: len(self.find("#gantt .gantt-bar")) > 10 and len(self.find("#curves svg")) == 2)
        # Everything that can be used is reached by the tabulator, and it can be seen where one is.
        self.script("document.activeElement.blur(); window.scrollTo(0, 0);")
        self.browser.execute_cdp_cmd("Input.dispatchMouseEvent", {"type": "mousePressed", "x": 2, "y": 300, "button": "left", "clickCount": 1})
        wanted = {"pause", "theme", "live-unit", "sim-machine", "sim-nic", "sim-firmware", "sim-bytes", "sim-messages", "sim-clock",
                  "sim-run", "gantt-moment", "gantt-play"}
        reached = set()
        self.script("document.querySelector('.skip').focus();")
        for _ in range(80):
            self.browser.switch_to.active_element.send_keys(Keys.TAB)
            place = self.script("const one = document.activeElement; return [one.id, getComputedStyle(one).outlineStyle, one.tagName];")
            if place[2] != "BODY":
                self.assertNotEqual(place[1], "none", place)
            reached.add(place[0])
            if wanted <= reached:
                break
        self.assertEqual(wanted - reached, set())
        # Every control has a name, every table a caption, every picture a text.
        self.assertEqual(self.script(
            "return [...document.querySelectorAll('button, select, input')].filter((one) => !(one.textContent.trim() || (one.labels && one.labels.length)))"
            ".map((one) => one.id);"), [])
        self.assertEqual(self.script("return [...document.querySelectorAll('table')].filter((one) => !one.caption).map((one) => one.id);"), [])
        self.assertEqual(self.script("return [...document.querySelectorAll('svg')].filter((one) => !one.getAttribute('aria-labelledby')).length;"), 0)
        # A space pauses, another goes on.
        self.find("#pause")[0].send_keys(Keys.SPACE)
        until("it pauses", lambda: self.find("#status[data-state='paused']"))
        self.find("#pause")[0].send_keys(Keys.SPACE)
        until("it goes on", lambda: self.find("#status[data-state='live']"))
        # Colours: as the system has them, or as chosen.
        for scheme in ("dark", "light"):
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
            self.assertEqual(self.theme_is_dark(), scheme == "dark")
            self.assert_readable(scheme)
        theme = self.find("#theme")[0]
        theme.click()
        self.assertEqual((theme.text, self.theme_is_dark()), ("Theme: light", False))
        theme.click()
        self.assertEqual((theme.text, self.theme_is_dark()), ("Theme: dark", True))
        self.open()
        self.assertTrue(self.theme_is_dark(), "the choice is kept")
        self.find("#theme")[0].click()
        # A phone: nothing beside the screen.
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 360, "height": 640, "deviceScaleFactor": 1, "mobile": True})
        try:
            self.open()
            self.script("document.getElementById('simulator').scrollIntoView();")
            until("the simulator on a phone", lambda: len(self.find("#gantt .gantt-bar")) > 10 and len(self.find("#curves svg")) == 2)
            for details in self.find("details"):
                self.script("arguments[0].open = true;", details)
            self.assertEqual(self.script("return [window.innerWidth, document.documentElement.scrollWidth];"), [360, 360])
        finally:
            self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        self.assert_no_complaints()

    def assert_readable(self, scheme):
        """Words against their ground by WCAG's measure."""
        weak = self.script("""
            const channel = (value) => { value /= 255; return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4; };
            const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
            const light = (colour) => { const [r, g, b] = parts(colour); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
            const ground = (one) => { for (; one; one = one.parentElement) { const colour = getComputedStyle(one).backgroundColor;
                const [, , , alpha] = parts(colour); if (alpha === undefined || alpha === 1) return colour; } return 'rgb(255, 255, 255)'; };
            const weak = [];
            for (const one of document.querySelectorAll('h1, h2, h3, p, a, button, select, th, td, caption, label, summary, code, dd, dt, li')) {
                if (!one.textContent.trim() || !one.offsetParent) continue;
                const a = light(getComputedStyle(one).color), b = light(ground(one));
                const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
                if (ratio < 4.5) weak.push(one.tagName + ' ' + one.textContent.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
            }
            return weak;""")
        self.assertEqual(weak, [], scheme)

    def test_server_that_ends_is_noticed(self):
        told = self.serve()
        self.open()
        os.kill(self.web.process.pid, signal.SIGTERM)
        self.assertEqual(self.web.process.wait(PATIENCE), 0)
        until("the page says so", lambda: "does not answer" in self.find("#problem")[0].text)
        self.assertTrue(self.find("#status[data-state='gone']"))
        # It comes back with another token: that is said, too.
        self.serve("--port", str(told["port"]))
        until("the page says that the token is old", lambda: "token" in self.find("#problem")[0].text)

    def test_cut_link_turns_red(self):
        if os.geteuid() != 0:
            self.skipTest("labs need root")
        name = "web%d" % os.getpid()
        via("lab", "up", "--name", name)
        self.addCleanup(via, "lab", "down", "--name", name, check=False)
        for link in ("0", "1"):
            via("lab", "rate", link, "200mbit", "--name", name)
        self.serve("--lab", name)
        self.open()
        # "down" also for a part of the links' table: the word, its colour, the overview, the list of changes.
        with Started("window", "--lab", name, "--bytes", "64k", "--seconds", "120", "--repetitions", "1"):
            rows = "#connections tr[data-state='%s'][data-link^='link%d']"
            until("all links are up", lambda: self.find(rows % ("up", 0)) and self.find(rows % ("up", 1)) and
                  not self.find("#connections tr:not([data-state='up'])[data-link]") and self.find("#box-links-box[data-state='good']"))
            via("lab", "link", "1", "down", "--name", name)
            until("the cut one is down", lambda: self.find(rows % ("down", 1)))
            until("the other goes on", lambda: self.find(rows % ("up", 0)))
            red, green, blue = self.script(
                "return getComputedStyle(document.querySelector(arguments[0])).color.match(/\\d+/g).slice(0, 3).map(Number);",
                rows % ("down", 1) + " .state")
            self.assertGreater(red, green + 80)
            self.assertGreater(red, blue + 80)
            until("the overview says so", lambda: self.find("#box-links-box[data-state='bad']"))
            until("the moment is listed", lambda: self.find("#changes li[data-to='down']"))
            self.assertRegex(self.find("#changes li[data-to='down']")[0].text, r"\d\d:\d\d:\d\d\.\d\d\d .*link1")
            until("and marked in the chart", lambda: self.find("#connections svg .mark:not(.up)"))
            # As `via links` says in that host.
            told = json.loads(via("lab", "run", "--name", name, "a", "--", VIA, "links", "--json"))
            states = {link["link"].split()[0]: link["state"] for one in told["processes"] for connection in one.get("connections", [])
                      for link in connection["links"]}
            self.assertEqual(states["link1"], "down")
            via("lab", "link", "1", "up", "--name", name)
            # On a busy machine another may be down for a moment; this one must come back.
            until("it comes back", lambda: self.find(rows % ("up", 1)))
            until("the moment is listed", lambda: self.find("#changes li[data-to='up']"))
        self.assert_no_complaints()


if __name__ == "__main__":
    for program in ("chromium", "chromedriver", "promtool"):
        if shutil.which(program) is None:
            print(program, "is not installed")
            sys.exit(77)
    unittest.main(verbosity=2)
