#!/usr/bin/env python3
"""Shows what of `src/` is run, by programs in which LLVM counts. Needs `rustup component add llvm-tools`.

    python3 tests/coverage.py                  # by all tests: lines that are run, by room
    python3 tests/coverage.py --test promise   # by some of them: arguments go to `cargo test`
    python3 tests/coverage.py check            # which files each request opens, from the service to Redis and back
"""

import glob
import json
import os
import subprocess
import sys
import tempfile

ROOMS = ["decide", "nulls", "middleware", "store/redis", ""]
# More often than anything happens that is not part of each request.
REQUESTS = 100_000

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
SRC = os.path.abspath("src") + os.sep
sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
tools = glob.glob(f"{sysroot}/lib/rustlib/*/bin/llvm-cov")
if not tools:
    sys.exit("rustup component add llvm-tools")
TOOLS = os.path.dirname(tools[0])


def cargo(directory, *arguments):
    """Runs cargo with programs that count into this directory; returns the test programs and benches."""
    # The workspace's own crates only: what they depend on is built already.
    wrapper = os.path.join(directory, "count")
    with open(wrapper, "w", encoding="utf-8") as script:
        script.write('#!/bin/sh\nexec "$@" -C instrument-coverage\n')
    os.chmod(wrapper, 0o755)
    profiles = os.path.join(directory, "%p-%m.profraw")
    env = {**os.environ, "RUSTC_WORKSPACE_WRAPPER": wrapper, "LLVM_PROFILE_FILE": profiles}
    command = ["cargo", arguments[0], "--profile", "tests", "--workspace", "--all-features", *arguments[1:]]
    built = [*command, "--no-run", "--message-format=json-render-diagnostics"]
    if "--" in arguments:
        built = [*command[: command.index("--")], *built[len(command) :]]
    lines = subprocess.run(built, env=env, capture_output=True, text=True, check=True).stdout.splitlines()
    programs = [message["executable"] for message in map(json.loads, lines) if message.get("executable")]
    ended = subprocess.run(command, env={**env, "RUST_TEST_THREADS": "4"}, check=False)
    if ended.returncode:
        print("!! not all of it passed")
    return programs


def export(directory, programs, *how):
    data = os.path.join(directory, "data")
    merge = [f"{TOOLS}/llvm-profdata", "merge", "-sparse", "-o", data]
    subprocess.run(merge + glob.glob(f"{directory}/*.profraw"), check=True)
    objects = [word for program in programs[1:] for word in ("-object", program)]
    show = [f"{TOOLS}/llvm-cov", "export", *how, "-instr-profile", data, programs[0], *objects]
    return json.loads(subprocess.run(show, capture_output=True, check=True).stdout)["data"][0]


def lines_by_room(directory, arguments):
    programs = cargo(directory, "test", *arguments)
    files = export(directory, programs, "-summary-only")["files"]
    files = {file["filename"].removeprefix(SRC): file["summary"]["lines"] for file in files if file["filename"].startswith(SRC)}
    for room in ROOMS:
        inside = [lines for path, lines in files.items() if path.startswith(room)]
        run, all_lines = (sum(lines[what] for lines in inside) for what in ("covered", "count"))
        print(f"src/{room:12} {run:6} of {all_lines:6} lines, {100 * run / max(all_lines, 1):.1f} %")


def files_of_a_check(directory):
    programs = cargo(directory, "bench", "-p", "bloom-guard-tests", "--bench", "local", "--", "redis")
    functions = export(directory, programs)["functions"]
    opened = {
        file.removeprefix(SRC)
        for function in functions
        if function["count"] >= REQUESTS
        for file in function["filenames"]
        if file.startswith(SRC)
    }
    print("\n".join(sorted(opened)))
    print(f"{len(opened)} files")


with tempfile.TemporaryDirectory() as scratch:
    if sys.argv[1:] == ["check"]:
        files_of_a_check(scratch)
    else:
        lines_by_room(scratch, sys.argv[1:])
