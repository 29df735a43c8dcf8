#!/usr/bin/env python3
"""Measures io_fetcher beside jdupes, rdfind, rsync, restic and borg on the same trees.

    compare.py PROGRAM SCRATCH index TREE...     duplicates: io_fetcher --index-only, jdupes, rdfind
    compare.py PROGRAM SCRATCH content TREE      stores: io_fetcher, restic, borg, rsync
    compare.py PROGRAM SCRATCH grain TREE        io_fetcher, one granularity after the other
    compare.py PROGRAM SCRATCH filters TREE      io_fetcher with the filters of its index and without

PROGRAM is the io_fetcher binary, SCRATCH a directory for stores and copies; it must not exist.
Rounds are interleaved; tables show the median and the range of ROUNDS (default 5) rounds, times also
as ratios to io_fetcher of the same round. Bytes are rchar and wchar of /proc/PID/io when the process
has ended, so all that passed through read and write calls, whether the disk was needed or not.
"""
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time

ROUNDS = int(os.environ.get("ROUNDS", "5"))
ENV = dict(os.environ, RESTIC_PASSWORD="x", BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes",
           BORG_BASE_DIR=os.path.abspath(sys.argv[2]) + "/borg-home",
           RESTIC_CACHE_DIR=os.path.abspath(sys.argv[2]) + "/restic-cache")


def run(command, into=None):
    """Time, bytes read and written, most memory of a command; it must succeed."""
    out = open(into, "wb") if into else subprocess.DEVNULL
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=ENV)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    took = time.monotonic() - start
    with open(f"/proc/{child.pid}/io") as file:
        io = dict(line.strip().split(": ") for line in file)
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{command}: status {status}")
    return {"s": took, "cpu": usage.ru_utime + usage.ru_stime, "read": int(io["rchar"]),
            "written": int(io["wchar"]), "calls": int(io["syscr"]), "memory": usage.ru_maxrss * 1024}


def table(title, rounds, first):
    print(f"\n{title}\n\n| program | time, s | ratio | CPU, s | MB read | MB written | MB memory |")
    print("|---|---|---|---|---|---|---|")
    for name in rounds[0]:
        def column(f, digits):
            values = sorted(f(one) for one in rounds)
            return f"{statistics.median(values):.{digits}f} ({values[0]:.{digits}f} to {values[-1]:.{digits}f})"
        mb = lambda field: f"{statistics.median(one[name][field] for one in rounds) / 1e6:.1f}"
        print(f"| {name} | {column(lambda one: one[name]['s'], 2)} "
              f"| {column(lambda one: one[name]['s'] / one[first]['s'], 2)} "
              f"| {statistics.median(one[name]['cpu'] for one in rounds):.2f} "
              f"| {mb('read')} | {mb('written')} | {mb('memory')} |")


def groups(path):
    with open(path, "rb") as file:
        text = file.read().strip()
    return {frozenset(group.split(b"\n")) for group in text.split(b"\n\n") if group}


def rdfind_groups(path):
    """rdfind names groups by number: the first with a positive one, the others with its negative."""
    found = {}
    with open(path, "rb") as file:
        for line in file:
            if not line.startswith(b"#"):
                parts = line.rstrip(b"\n").split(b" ", 7)
                found.setdefault(abs(int(parts[1])), []).append(parts[7])
    return {frozenset(group) for group in found.values()}


def index(program, scratch, trees):
    first, again = [], []
    store, results = f"{scratch}/index", f"{scratch}/rdfind.txt"
    ours = [program, "ingest", "--store", store, "--index-only", *trees]
    for _ in range(ROUNDS):
        shutil.rmtree(store, ignore_errors=True)
        first.append({
            "io_fetcher --index-only": run(ours),
            "jdupes -r -H": run(["jdupes", "-q", "-r", "-H", *trees], f"{scratch}/jdupes.txt"),
            "rdfind": run(["rdfind", "-removeidentinode", "false", "-makeresultsfile", "true",
                           "-outputname", results, *trees]),
        })
        again.append({
            "io_fetcher, unchanged": run(ours),
            # A tree compared with itself: what a perfect copy would cost.
            "rsync -an": run(["sh", "-c", " && ".join(f"rsync -an {t}/ {t}/" for t in trees)]),
        })
    table("First run", first, "io_fetcher --index-only")
    table("Second run", again, "io_fetcher, unchanged")
    run([program, "list", "--store", store, "--duplicates", "--raw"], f"{scratch}/ours.txt")
    mine = groups(f"{scratch}/ours.txt")
    for name, theirs in [("jdupes", groups(f"{scratch}/jdupes.txt")),
                         ("rdfind", rdfind_groups(results))]:
        print(f"\ngroups of duplicates: {len(mine)}, {name} {len(theirs)}, different {len(mine ^ theirs)}")


def change(tree, part):
    """Changes one file of so many, in a way that real changes have: a line inserted near the start."""
    generator, changed = random.Random(1), 0
    for folder, folders, names in os.walk(tree):
        folders.sort()
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path) and generator.random() < part:
                with open(path, "rb") as file:
                    content = file.read()
                at = min(len(content), generator.randrange(2000))
                with open(path, "wb") as file:
                    file.write(content[:at] + b"a line was added\n" + content[at:])
                changed += 1
    print(f"{changed} files changed")


def apart(work, *arguments):
    """In a process of its own: the memory of this one is the least that a child is said to have."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        work(*arguments)
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)


def content(program, scratch, trees):
    tree, runs = f"{scratch}/tree", {"First run": [], "Second run": [], "1 % changed": []}
    stores = [f"{scratch}/{name}" for name in ("ours", "cdc", "restic", "borg", "rsync")]
    for number in range(ROUNDS):
        for path in stores + [f"{scratch}/restic-cache", f"{scratch}/borg-home"]:
            shutil.rmtree(path, ignore_errors=True)
        subprocess.run(["rsync", "-a", "--delete", trees[0] + "/", tree + "/"], check=True)
        run(["restic", "init", "-r", stores[2]])
        run(["borg", "init", "-e", "none", stores[3]])
        commands = {
            "io_fetcher": [program, "ingest", "--store", stores[0], tree],
            "io_fetcher, cdc": [program, "ingest", "--store", stores[1], "--granularity", "cdc",
                                tree],
            "restic": ["restic", "backup", "-q", "-r", stores[2], tree],
            "borg": ["borg", "create", stores[3] + "::{now}-{pid}", tree],
            "rsync -a": ["rsync", "-a", tree + "/", stores[4] + "/"],
        }
        subprocess.run(["sync"])
        for title in runs:
            if title.startswith("1"):
                apart(change, tree, 0.01)
            runs[title].append({name: run(command) for name, command in commands.items()})
        sizes = [int(subprocess.check_output(["du", "-sb", path]).split()[0]) for path in stores]
        print("bytes of the stores:", dict(zip(commands, sizes)))
    for title, rounds in runs.items():
        table(title, rounds, "io_fetcher")


def grain(program, scratch, trees):
    tree = f"{scratch}/tree"
    shutil.rmtree(tree, ignore_errors=True)
    print("| granularity | run | s | CPU s | stored MB | pieces | found again | MB found | index MB | packs MB "
          "| MB read | MB written | reads avoided | read in vain |")
    print("|" + "---|" * 14)
    for options in GRAINS:
        subprocess.run(["rsync", "-a", "--delete", trees[0] + "/", tree + "/"], check=True)
        store = f"{scratch}/grain"
        shutil.rmtree(store, ignore_errors=True)
        for title in ("first", "1 % changed"):
            if title != "first":
                apart(change, tree, 0.01)
            command = [program, "ingest", "--store", store, "--json", *options, tree]
            took = run(command, f"{scratch}/grain.json")
            with open(f"{scratch}/grain.json") as file:
                *_, last = file
            told = json.loads(last)
            stats = json.loads(subprocess.check_output([program, "stats", "--json", "--store", store]))
            mb = lambda number: f"{number / 1e6:.1f}"
            print(f"| {' '.join(options[1::2])} | {title} | {took['s']:.1f} | {took['cpu']:.1f} | {mb(told['stored_bytes'])} "
                  f"| {told['pieces']} | {told['pieces_found']} | {mb(told['pieces_found_bytes'])} "
                  f"| {mb(stats['index_bytes'])} | {mb(stats['pack_bytes'])} | {mb(took['read'])} "
                  f"| {mb(took['written'])} | {told['reads_avoided_by_filters']} "
                  f"| {told['false_positives']} |", flush=True)


def filters(program, scratch, trees):
    """Other tables with filters in each variant. The sources are read in all of them alike, so the
    difference of what was read is that of the index."""
    tree, rounds = f"{scratch}/tree", []
    for _ in range(ROUNDS):
        shutil.rmtree(tree, ignore_errors=True)
        subprocess.run(["cp", "-a", trees[0], tree], check=True)
        variants = [(kind, tables) for kind in FILTERED for tables in FILTERED[kind]]
        store = {variant: f"{scratch}/{'-'.join(variant)}" for variant in variants}
        for path in store.values():
            shutil.rmtree(path, ignore_errors=True)
        results = {}
        for title in ("first", "unchanged", "1 % changed"):
            if title.startswith("1"):
                apart(change, tree, 0.01)
            for kind, tables in variants:
                options = [*KINDS[kind], "--filters", tables]
                took = run([program, "ingest", "--store", store[kind, tables], *options, tree])
                held = json.loads(subprocess.check_output(
                    [program, "stats", "--json", "--store", store[kind, tables]]))
                results[kind, tables, title] = took | {
                    "index": held["index_bytes"], "filter": held["filter_bytes"]}
        rounds.append(results)
    print("| run | kind | tables with filters | time to that without | read calls | KB read | index KB | filters KB |")
    print("|" + "---|" * 8)
    for kind, tables, title in rounds[0]:
        ratios = sorted(one[kind, tables, title]["s"] / one[kind, "none", title]["s"] for one in rounds)
        median = lambda field: statistics.median(one[kind, tables, title][field] for one in rounds)
        kb = lambda field: f"{median(field) / 1e3:.0f}"
        print(f"| {title} | {kind} | {tables.replace(',', ', ')} | {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) "
              f"| {median('calls'):.0f} | {kb('read')} | {kb('index')} | {kb('filter')} |")


KINDS = {"content": [], "index only": ["--index-only"], "cdc": ["--granularity", "cdc"]}
FILTERED = {
    "content": ["none", "first_block", "directory", "inode", "whole"],
    "index only": ["none", "first_block", "size"],
    "cdc": ["none", "first_block", "first_block,piece"],
}

GRAINS = [["--granularity", "document"]] + [
    ["--granularity", kind, "--block-bytes", size]
    for kind, size in [("block", "4096"), ("block", "16384"), ("block", "65536"),
                       ("cdc", "4096"), ("cdc", "16384"), ("auto", "16384")]
] + [["--granularity", "line"]]


def main():
    if len(sys.argv) < 5 or sys.argv[3] not in ("index", "content", "grain", "filters"):
        sys.exit(__doc__)
    program, scratch, what, *trees = sys.argv[1:]
    os.makedirs(scratch)
    {"index": index, "content": content, "grain": grain, "filters": filters}[what](program, scratch, trees)


main()
