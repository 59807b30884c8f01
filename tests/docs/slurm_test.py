#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The commands of the section about Slurm work: slurm_test.py SOURCE BUILD FOLDER

The document's own cluster of one machine is started and its own lines are given to it. All of this
happens in namespaces, so that nothing outlives the test and no Slurm of the machine is touched.
"""
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

source, build, work = (Path(word) for word in sys.argv[1:4])
prefix = work / "prefix"
SECONDS = 150
SKIPPED = 77

# A machine with a name of its own, a /run of its own and only itself on the network. Slurm looks for
# its name only if there is an address that is not loopback's.
MACHINE = """
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs /run
printf '127.0.0.1 localhost\\n10.77.0.1 node\\n' >/run/hosts
mount --bind /run/hosts /etc/hosts
hostname node
ip link set lo up
ip link add node0 type veth peer name node1
ip address add 10.77.0.1/24 dev node0
ip link set node0 up
ip link set node1 up
"""

# A job that comes while the node is not there yet, or still cleans up after the last, may fail.
IDLE = """
for attempt in $(seq 300); do
    if [ "$(sinfo --noheader --format %T 2>/dev/null)" = idle ]; then break; fi
    sleep 0.1
done
sinfo --noheader --format 'the node is %T'
"""


def blocks_of(document, title):
    """The indented blocks of one section, each without its indentation."""
    section = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", document.read_text(), re.M | re.S).group(1)
    for block in re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", section, re.M):
        yield re.sub(r"^ {4}", "", block, flags=re.M).strip()


def main():
    missing = [name for name in ("slurmctld", "slurmd", "srun", "munged", "unshare", "ip") if not shutil.which(name)]
    if missing or os.geteuid() != 0:
        print("skipped: " + (f"without {', '.join(missing)}" if missing else "only root can make a cluster"))
        return SKIPPED
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    subprocess.run(["cmake", "--install", str(build), "--prefix", str(prefix)], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["mpicc", "-o", str(work / "program"), str(source / "examples/mpi/hello.c")], check=True)

    blocks = list(blocks_of(source / "docs/mpi-launchers.md", "Slurm"))
    clusters = [block for block in blocks if "slurmctld" in block]
    jobs = [block for block in blocks if "slurmctld" not in block]
    if len(clusters) != 1 or not any("srun" in job for job in jobs) or not any("salloc" in job for job in jobs):
        print(f"the section is not what this test expects: {len(clusters)} clusters, jobs {jobs}")
        return 1
    cluster = re.sub(r"^apt-get .*\n", "", clusters[0], flags=re.M)
    script = MACHINE + cluster + "\n"
    for job in jobs:
        job = job.replace("/usr/local/lib/", f"{prefix}/{os.environ['INSTALL_LIBDIR']}/")
        script += f"{IDLE}\n({job})\n"  # what one exports is not the next one's
    script += "echo every job has run\n"

    names = {**os.environ, "PATH": f"{prefix}/bin:/usr/sbin:/sbin:{os.environ['PATH']}",
             "LD_LIBRARY_PATH": str(prefix / os.environ["INSTALL_LIBDIR"]), "VIA_CONFIG": "/dev/null",
             "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    for name in [name for name in names if name.startswith(("VIA_AGENT", "FI_", "SLURM_"))]:
        del names[name]
    # The process identifiers are the namespace's own: with the shell, all that it has started ends.
    done = subprocess.run(["unshare", "--mount", "--net", "--uts", "--ipc", "--pid", "--fork", "--kill-child",
                           "--mount-proc", "timeout", "--signal=KILL", str(SECONDS), "bash", "-c", script],
                          cwd=work, env=names, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    print(done.stdout)
    greetings = len(re.findall(r"^.*rank \d+ of 2", done.stdout, re.M | re.I))
    good = done.returncode == 0 and "every job has run" in done.stdout and greetings == 2 * len(jobs)
    print(f"exit code {done.returncode}, {greetings} greetings of {len(jobs)} jobs")
    return 0 if good else 1


sys.exit(main())
