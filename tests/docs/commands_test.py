#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Every command that the documents show works: commands_test.py SOURCE BUILD FOLDER

The build is installed into a folder, and each document's commands are run there in their order, as
somebody would type them. RULES says what is run otherwise: with less to do, until it has shown something,
or by another test, which must name it. A command that no rule covers is run. What makes labs is for root only.
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

source, build, work = (Path(word) for word in sys.argv[1:4])
prefix = work / "prefix"
SECONDS = 240  # for one command

# What begins a command in an indented block; everything else there is a picture or a listing.
PROGRAMS = r"(?:sudo |[A-Z_]+=\S+ )*(?:\./run|via|mpirun|mpiexec|mpicc|cc|c\+\+|srun|salloc|fi_info|export|apt-get|apt|dpkg|cp|bpftrace|python3|dpkg-buildpackage|\./echo|\./hello|promtool|curl)(?=\s|$)"

LESS, LIVE, HOSTS, ELSEWHERE, PACKAGES, NOT_RUN = "less", "live", "hosts", "elsewhere", "packages", "not run"
RULES = [
    # The tree's own commands are what builds and tests this very build.
    (r"\./run (build|test|lint|demo|format)", ELSEWHERE, (".ci/run", "./run test")),
    (r"VIA_FUZZ_SECONDS=\d+ \./run test fuzz", ELSEWHERE, ("run", "fuzz_seconds")),
    (r"\./run install", ELSEWHERE, ("tests/install/install_test.sh", "cmake --install")),
    (r"\./run package", ELSEWHERE, ("run", "package")),
    (r"\./run site", ELSEWHERE, ("docs/site/CMakeLists.txt", "build_site.py")),
    (r"\./run soak", LESS, " --seeds 20 --kills 1 --gigabytes 0"),
    (r"\./run bench --quick", LESS, " --only shm --repetitions 1 --no-plots"),  # tests/bench has the others
    (r"\./run bench --row", LESS, " --repetitions 1"),
    (r"\./run bench", LESS, " --list"),  # a quarter of an hour otherwise; --quick measures of each kind
    (r"via stat my_program$", LIVE, "my_program pingpong --device shm0 --seconds 60"),
    (r"via (stat|links)( --watch)?$", LIVE, None),
    (r"via report", ELSEWHERE, ("tests/tools/report_command_test.cpp", "diff")),
    (r"(sudo )?via web", ELSEWHERE, ("tests/tools/CMakeLists.txt", "web")),
    (r"via sim reproduce", ELSEWHERE, ("tests/tools/sim_report_command_test.cpp", "reproduce")),
    (r"via sim ablate", ELSEWHERE, ("tests/tools/sim_report_command_test.cpp", "ablate")),
    (r"via modes", ELSEWHERE, ("tests/tools/modes_command_test.cpp", "modes")),
    (r"via tune", ELSEWHERE, ("tests/tools/modes_command_test.cpp", '"tune"')),
    (r"via ablate$", LESS, " --pairs 1"),
    (r"(sudo )?via lab demo", ELSEWHERE, ("tests/tools/net_command_test.cpp", "demo")),
    (r"(sudo )?via window --lab .*--seconds 20", ELSEWHERE, ("tests/tools/web_browser_test.py", '"window", "--lab"')),
    (r"via run .*hpcc|cp /usr/share/doc/hpcc", ELSEWHERE, ("tests/mpi/CMakeLists.txt", "run-hpcc.sh")),
    (r"via run .*--hosts", HOSTS, {"one": "a", "two": "b"}),
    (r"via run .*lmp", ELSEWHERE, ("tests/mpi/CMakeLists.txt", "melt.lammps")),
    (r"via run .*NPopenmpi", ELSEWHERE, ("tests/mpi/CMakeLists.txt", "netpipe")),
    (r"(srun|salloc|export SLURM_CONF|export (FI_PROVIDER|OMPI_MCA))", ELSEWHERE, ("tests/docs/slurm_test.py", "srun")),
    (r"apt-get install \./build/packages", ELSEWHERE, ("tests/package/package_test.sh", "apt-get")),
    (r"apt-get install ", PACKAGES, None),  # changes the machine, but ./run has installed them
    (r"cc mine\.c", ELSEWHERE, ("tests/install/install_test.sh", "pkg-config")),
    (r"PYTHONPATH=\S+ python3 bindings/python/examples", ELSEWHERE, ("bindings/python/tests/CMakeLists.txt", "first_steps.py")),
    (r"sudo bpftrace ", ELSEWHERE, ("tests/tracing/bpftrace_test.py", "bpftrace")),
]


def commands_of(document):
    """Of blocks marked sh, and the lines of indented blocks that begin with a program."""
    fence, line = None, ""
    for text in document.read_text().splitlines():
        if text.startswith("```"):
            fence = None if fence is not None else text[3:].strip()
            continue
        if fence == "sh" or (fence is None and re.match(r" {4}" + PROGRAMS, text)) or (line and fence is None):
            line += re.sub(r"\s{2,}#.*$|\s+# .*$", "", text.strip())
            if line.endswith("\\"):
                line = line[:-1] + " "
                continue
            if line:
                yield line
            line = ""


def rule_for(command):
    for pattern, how, what in RULES:
        if re.match(pattern, command):
            return how, what
    return "run", None


def environment():
    names = dict(os.environ)
    libraries = prefix / os.environ["INSTALL_LIBDIR"]
    names.update(
        PATH=f"{prefix}/bin:{names['PATH']}", PKG_CONFIG_PATH=f"{libraries}/pkgconfig", LD_LIBRARY_PATH=str(libraries),
        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
        VIA_CONFIG="/dev/null", VIA_AGENT_IDLE_SECONDS="2", VIA_AGENT_SOCKET=f"@viaduct/docs-test/{os.getpid()}",
    )
    for name in ("VIA_AGENT_PROGRAM", "FI_PROVIDER", "FI_PROVIDER_PATH"):
        names.pop(name, None)
    return names


def run(command, names, folder):
    """None, or what went wrong. All that it starts ends with it."""
    command = re.sub(r"^sudo ", "", command).replace("/usr/local/", f"{prefix}/")
    command = re.sub(r"^\./run bench", f"{build}/bin/viabench", command)  # what it calls when all is built
    command = re.sub(r"^\./run soak", f"VIA_RELEASE={build} {source}/run soak", command)
    if command.startswith("mpirun"):  # libfabric finds what is installed for the system by itself
        names = {**names, "FI_PROVIDER_PATH": str(prefix / os.environ["INSTALL_LIBDIR"] / "libfabric")}
    behind = command.endswith("&")
    words = f"set -e; {command.rstrip('& ')}"
    process = subprocess.Popen(["bash", "-c", words], cwd=folder, env=names, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    if behind:
        return process
    try:
        output, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        os.killpg(process.pid, signal.SIGKILL)
        return f"no end within {SECONDS} s, and before that: {(late.output or b'').decode(errors='replace')[-3000:]}"
    return None if process.returncode == 0 else f"exit code {process.returncode}: {output.decode(errors='replace')[-3000:]}"


def run_between_hosts(command, hosts, names, folder):
    """A command for machines with these names, given to the hosts of a lab, which are entered otherwise than by ssh."""
    for name, host in hosts.items():
        command = re.sub(rf"\b{name}\b", host, command)
    launch = "env OMPI_MCA_oob_tcp_if_include=link0 'OMPI_MCA_plm_rsh_agent=via lab shell'"
    problem = run(f"via lab up; trap 'via lab down' EXIT; via lab run {next(iter(hosts.values()))} -- {launch} {command}", names, folder)
    if problem:  # what still runs there says where it stands still
        problem += "\n" + subprocess.run(["via", "lab", "status"], env=names, capture_output=True, text=True, timeout=60).stdout
        subprocess.run(["via", "lab", "down"], env=names, capture_output=True, timeout=60)
    return problem


def run_live(command, beside, names, folder):
    """A command that goes on for ever must have shown something and then end by Ctrl-C."""
    if beside:  # the reader's own program, which is via by another name
        shutil.copy(prefix / "bin/via", prefix / "bin" / beside.split()[0])
        other = subprocess.Popen(shlex.split(beside), cwd=folder, env=names, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, start_new_session=True)
        look = ["via", "stat", "--once", beside.split()[0]]  # not found before it has opened its NIC
        deadline = time.monotonic() + SECONDS
        try:
            while subprocess.run(look, cwd=folder, env=names, capture_output=True, timeout=SECONDS).returncode != 0:
                if time.monotonic() > deadline or other.poll() is not None:
                    return f"{beside} does not use Viaduct"
                time.sleep(0.05)
            return run_live(command, None, names, folder)
        finally:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()
    process = subprocess.Popen(shlex.split(command), cwd=folder, env=names, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    os.set_blocking(process.stdout.fileno(), False)
    deadline, shown = time.monotonic() + SECONDS, b""
    while time.monotonic() < deadline and process.poll() is None and not shown:
        shown = process.stdout.read() or b""
        time.sleep(0.05)
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return "does not end by SIGINT"
    shown += process.stdout.read() or b""
    if process.returncode not in (0, 130, -signal.SIGINT):
        return f"exit code {process.returncode}: {shown.decode(errors='replace')[-3000:]}"
    return None if shown else "it showed nothing"


def check_packages(command):
    known = set((source / "cmake/debian-packages.txt").read_text().split())
    missing = [name for name in command.split()[2:] if name not in known]
    return f"cmake/debian-packages.txt has no {', '.join(missing)}, so no test uses them" if missing else None


def check_elsewhere(what):
    file, word = what
    path = source / file
    return None if path.exists() and word in path.read_text() else f"{file}, which should run it, has no '{word}'"


def main():
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
    folder = work / "folder"  # what the documents take for granted: the examples, and a program for MPI
    shutil.copytree(source / "examples", folder / "examples")
    shutil.copytree(source / "contrib", folder / "contrib")
    shutil.copytree(source / "bindings", folder / "bindings", ignore_dangling_symlinks=True) if (source / "bindings").exists() else None
    names = environment()
    subprocess.run(["mpicc", "-o", str(folder / "program"), str(source / "examples/mpi/hello.c")], check=True)
    (folder / "program.py").write_text("from mpi4py import MPI\nassert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.Get_size() == 2\n")
    documents = [source / "README.md", source / "CONTRIBUTING.md", *sorted(source.glob("docs/*.md")), *sorted(source.glob("docs/man/*.md"))]
    done, counts, failures = {}, {}, []
    for document in documents:
        waiting = []
        for command in commands_of(document):
            if command in done and "via lab" not in command:  # a lab is made anew for each document
                continue
            how, what = rule_for(command)
            if (how in ("run", LESS) and re.search(r"\blab\b|--lab|soak", command) or how == HOSTS) and os.geteuid() != 0:
                how = NOT_RUN
            started = time.monotonic()
            if how in ("run", LESS):
                problem = run(command + (what or ""), names, folder)
                if isinstance(problem, subprocess.Popen):
                    waiting.append((command, problem))
                    problem = None
            elif how == LIVE:
                problem = run_live(command, what, names, folder)
            elif how == HOSTS:
                problem = run_between_hosts(command, what, names, folder)
            elif how == PACKAGES:
                problem = check_packages(command)
            elif how == ELSEWHERE:
                problem = check_elsewhere(what)
            else:
                problem = None
            done[command] = problem
            counts[how] = counts.get(how, 0) + 1
            print(f"{how:9} {time.monotonic() - started:5.1f} s  {document.relative_to(source)}: {command}", flush=True)
            if problem:
                failures.append(f"{document.relative_to(source)}: {command}\n    {problem}")
        for command, process in waiting:  # servers, which have had their client
            try:
                if process.wait(SECONDS) != 0:
                    failures.append(f"{document.relative_to(source)}: {command}\n    exit code {process.returncode}: {process.stdout.read()[-3000:]}")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                failures.append(f"{document.relative_to(source)}: {command}\n    no end within {SECONDS} s")
    print(", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    print("\n".join(failures))
    return bool(failures)


sys.exit(main())
