#!/usr/bin/env python3
"""Counts how large the crate is, and prints one table.

A source file counts up to its first `#[cfg(test)]` at the start of a line; `tests.rs` and `tests/` under `src/` count as tests.
"""

import os
import re
import subprocess

os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True)
FILES = [path for path in listed.stdout.splitlines() if os.path.isfile(path)]


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_test(path):
    return path.endswith("tests.rs") or "/tests/" in path


def without_tests(path):
    return re.split(r"(?m)^#\[cfg\(test\)\]", read(path))[0]


SOURCES = {
    path: without_tests(path)
    for path in FILES
    if path.startswith("src/") and path.endswith(".rs") and not is_test(path)
}
ROOMS = {
    "src/, without its tests": ("src/",),
    "  of it other systems' filters (store/foreign)": ("src/store/foreign",),
    "  of it the command (command, bin)": ("src/command/", "src/bin/"),
    "  of it decide, nulls, extract, middleware": ("src/decide", "src/nulls", "src/extract", "src/middleware"),
    "  of it store/redis": ("src/store/redis",),
}


def code_lines(text):
    lines = (line.strip() for line in text.splitlines())
    return sum(bool(line) and not line.startswith("//") for line in lines)


def block(text, opening):
    """Returns what the first line that matches `opening`, which ends with a brace, opens."""
    found = re.search(opening, text, re.M)
    if not found:
        return ""
    depth, start = 1, found.end()
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start:at]
    return text[start:]


def variants(body):
    """Returns the names at the first level of an enum's body, without comments, attributes, and fields."""
    body = re.sub(r'(?s)//[^\n]*|"(?:[^"\\]|\\.)*"', "", body)
    while True:
        smaller = re.sub(r"\([^()]*\)|\{[^{}]*\}|\[[^\[\]]*\]", "", body)
        if smaller == body:
            return re.findall(r"(?m)^\s*#*\s*([A-Z]\w*)\s*[,=]?", re.sub(r",", ",\n", body))
        body = smaller


def root_names():
    """Returns what users see at the crate's root: what it re-exports, and its public modules."""
    text = re.sub(r"//.*", "", read("src/lib.rs"))
    modules = re.findall(r"(?m)^ *pub mod (\w+)", text)
    names = []
    for use in re.findall(r"(?ms)^ *pub use (.*?);$", text):
        names += re.findall(r"(\w+)\s*(?=[,}]|$)", use)
    return names, modules


def error_enums():
    found = {}
    for text in SOURCES.values():
        for attributes, name in re.findall(r"((?:^#\[[^\n]*\n)+)^pub enum (\w+)", text, re.M):
            if "thiserror::Error" in attributes or re.search(rf"impl std::error::Error for {name}\b", text):
                found[name] = variants(block(text, rf"^pub enum {name}\b[^{{]*\{{"))
    return found


rows = []
for room, places in ROOMS.items():
    texts = [text for path, text in SOURCES.items() if path.startswith(places)]
    rows.append((room, sum(text.count("\n") for text in texts), sum(map(code_lines, texts)), len(texts)))
lua = [read(path) for path in FILES if path.startswith("src/") and path.endswith(".lua")]
code = sum(bool(line.strip()) and not line.strip().startswith("--") for text in lua for line in text.splitlines())
rows.append(("Lua", sum(text.count("\n") for text in lua), code, len(lua)))
inner = [read(path)[len(SOURCES.get(path, "")) :] for path in FILES if path.startswith("src/") and path.endswith(".rs")]
inner = [text for text in inner if text]
rows.append(("tests inside src/", sum(text.count("\n") for text in inner), sum(map(code_lines, inner)), len(inner)))
tests = {path: read(path) for path in FILES if path.startswith("tests/") and path.endswith(".rs")}
rows.append(("tests/", sum(text.count("\n") for text in tests.values()), sum(map(code_lines, tests.values())), len(tests)))
simulation = [text for path, text in tests.items() if path.startswith("tests/simulation/")]
rows.append(("  of it the simulation", sum(text.count("\n") for text in simulation), sum(map(code_lines, simulation)), len(simulation)))

print(f"{'':48} {'lines':>7} {'code':>7} {'files':>6}")
for room, lines, code, files in rows:
    print(f"{room:48} {lines:7} {code:7} {files:6}")

setters = [
    name
    for path, text in SOURCES.items()
    if path.startswith("src/builder/")
    for name in re.findall(r"(?m)^    pub fn (\w+)(?:<[^>]*>)?\(\s*(?:mut )?self\b[^{]*-> Self\s", text)
]
names, modules = root_names()
doubts = re.findall(r"(?m)^    ([A-Z]\w+) =", block(SOURCES["src/verdict.rs"], r"^doubts! \{")) + ["Refused"]
refusals = re.findall(r"(?m)^    ([A-Z_]+) =", block(SOURCES["src/refusal.rs"], r"^refusals! \{"))
enums = error_enums()
# Without the definitions of links at a page's end, and without what has no letter, as the bars of a table.
guide = {
    os.path.basename(path): len(re.findall(r"\S*\w\S*", re.sub(r"(?m)^\[[^]]+\]: .*", "", read(path))))
    for path in FILES
    if path.startswith("src/guide/") and path.endswith(".md")
}
readme = len(re.findall(r"\S*\w\S*", re.sub(r"(?s)```.*?```", "", read("README.md"))))
beside = [guide.pop(page) for page in ("design.md", "format.md")]
seeded = tests.get("tests/simulation/seeded/list.rs", "")
tuples = sum(
    bool(re.match(r"\s*let \((mut )?\w+, (mut )?\w+(, (mut )?\w+)*\) = \(", line))
    for text in SOURCES.values()
    for line in text.splitlines()
)
print()
for what, count in (
    ("names at the root", len(names)),
    ("public modules at the root", len(modules)),
    ("setters of the builder", len(setters)),
    ("doubts", len(doubts)),
    ("codes of what Redis refuses", len(refusals)),
    (f"error variants, in {len(enums)} public enums", sum(map(len, enums.values()))),
    ("words of the README, without code", readme),
    (f"words of the guide's {len(guide)} pages", sum(guide.values())),
    ("  of its page design", beside[0]),
    ("  of its page format", beside[1]),
    ("seeded bugs", len(re.findall(r'\bbug\(\s*"', seeded))),
    ("`let (a, b) = (x, y)` in src/", tuples),
):
    print(f"{what:48} {count:7}")
for name, names in sorted(enums.items()):
    print(f"  {name:46} {len(names):7}")
