#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The house rules that a program can check. Usage: style.py ROOT; exit status 1 if any is broken.

Each rule is a function from a Source to complaints; style_test.py shows every one of them a file
that it must reject. To add a rule: write it, put it in RULES, give it a bad example there.
"""

import functools
import os
import re
import sys
from typing import Iterator, NamedTuple

LICENSE = "SPDX-License-Identifier: Apache-2.0"
MAX_LINES = 600
MAX_FUNCTION_LINES = 60
FOLDERS = ("include", "proto", "engine", "coll", "plugin", "sim", "tool", "test", "bench", "docs")
LIBRARIES = ("include", "proto", "engine", "coll", "plugin", "sim")
SANS_IO = ("proto", "coll", "sim")
CODE = (".hpp", ".cpp", ".h", ".c")
TEXT = CODE + (".py", ".sh", ".md", ".txt", ".cmake", ".json")

STD = set("""
algorithm any array atomic barrier bit bitset cassert cctype cerrno cfenv cfloat charconv chrono
cinttypes climits clocale cmath codecvt compare complex concepts condition_variable coroutine csetjmp
csignal cstdarg cstddef cstdint cstdio cstdlib cstring ctime cuchar cwchar cwctype deque exception
execution filesystem forward_list fstream functional future initializer_list iomanip ios iosfwd
iostream istream iterator latch limits list locale map memory memory_resource mutex new numbers
numeric optional ostream queue random ranges ratio regex scoped_allocator semaphore set shared_mutex
source_location span sstream stack stdexcept stop_token streambuf string string_view strstream
syncstream system_error thread tuple type_traits typeindex typeinfo unordered_map unordered_set
utility valarray variant vector version cpuid.h immintrin.h
""".split())

C_STD = set("inttypes.h stdbool.h stddef.h stdint.h stdio.h stdlib.h string.h".split())

OS = re.compile(
    r"(sys|net|netinet|arpa|linux|asm|infiniband|bits)/.*"
    r"|(unistd|poll|fcntl|sched|pthread|signal|spawn|dlfcn|ifaddrs|netdb|time|errno|termios|glob|fnmatch)\.h"
    r"|(numa|numaif|ucontext|execinfo|link|malloc|dirent|pwd|getopt)\.h")


class Zone(NamedTuple):
    """What the files of a folder may include: folders of the tree, and headers of others."""
    folders: tuple
    others: re.Pattern
    os: bool


def others(*patterns):
    return re.compile("|".join(patterns) if patterns else r"(?!)")


ENGINE_OTHERS = others(r"rte_\w+\.h", r"boost/.*", r"sodium\.h", r"fmt/.*", r"spdlog/.*",
                       r"sanitizer/.*")
# The longest prefix of a file's path decides.
ZONES = {
    "include/": Zone(("include",), others(), False),
    # Memory, and nothing else of the system.
    "proto/base/pages.cpp": Zone(("include", "proto"), others(r"sanitizer/.*"), True),
    "proto/": Zone(("include", "proto"), others(r"isa-l/.*", r"isa-l\.h", r"sodium\.h"), False),
    "engine/driver/memory": Zone(("include", "proto", "engine/driver"), others(), False),
    "engine/driver/fault": Zone(("include", "proto", "engine/driver"), others(), False),
    "engine/": Zone(("include", "proto", "engine"), ENGINE_OTHERS, True),
    "coll/c_api": Zone(("include", "engine/c_api", "coll"), others(), False),
    "coll/": Zone(("include", "coll"), others(), False),
    "plugin/": Zone(("include", "plugin"), others(r"rdma/.*", r"nccl.*"), True),
    "plugin/torch": Zone(("include", "plugin/torch"), others(r"torch/.*", r"ATen/.*", r"pybind11/.*"), True),
    # Conversions of text, in headers alone.
    "sim/input/": Zone(("include", "proto", "sim"), others(r"boost/locale/.*"), False),
    "sim/": Zone(("include", "proto", "engine/driver/memory", "engine/driver/fault", "sim"),
                 others(), False),
    "tool/": Zone(("include", "proto", "engine", "coll", "plugin", "sim", "tool"),
                  others(r".*"), True),
    "test/": Zone(("include", "proto", "engine", "coll", "plugin", "sim", "tool", "test"),
                  others(r".*"), True),
    "bench/": Zone(("include", "proto", "engine", "coll", "plugin", "sim", "tool", "bench"),
                   others(r".*"), True),
    "docs/": Zone(("include",), others(), False),
}


class Source:
    def __init__(self, root, path):
        self.root = root
        self.path = path
        self.folder = path.split("/")[0]
        self.name = os.path.basename(path)
        self.suffix = os.path.splitext(path)[1]
        self.is_code = self.suffix in CODE
        with open(os.path.join(root, path), encoding="utf-8") as file:
            self.text = file.read()
        self.is_source = (self.suffix in CODE + (".py", ".sh", ".cmake") or self.name == "CMakeLists.txt"
                          or self.folder == ".ci")
        self.lines = self.text.splitlines()
        self.code = blank_comments_and_strings(self.text).splitlines() if self.is_code else []

    def matches(self, pattern, lines=None) -> Iterator[tuple]:
        for number, line in enumerate(self.lines if lines is None else lines, 1):
            found = pattern.search(line)
            if found:
                yield number, found


TOKENS = re.compile(
    r'R"(?P<delimiter>[^()\\ ]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.S)


def blank_comments_and_strings(text):
    """Keeps the lines; what stands in #include quotes stays too."""
    def blank(match):
        token = match.group(0)
        start = text.rfind("\n", 0, match.start()) + 1
        if token[0] == '"' and re.match(r"\s*#\s*include\s*$", text[start:match.start()]):
            return token
        return re.sub(r"[^\n]", " ", token)
    return TOKENS.sub(blank, text)


INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def zone_of(path):
    best = max((prefix for prefix in ZONES if path.startswith(prefix)), key=len, default=None)
    return ZONES[best] if best else None


def rule_include(source):
    """A folder includes only what it may."""
    zone = zone_of(source.path)
    if not source.is_code or zone is None:
        return
    for number, found in source.matches(INCLUDE, source.code):
        kind, name = found.groups()
        if kind == "<":
            if not (name in (C_STD if source.suffix in (".h", ".c") else STD)
                    or (zone.os and OS.fullmatch(name))
                    or (source.folder == "docs" and name.startswith("hawser/"))
                    or zone.others.fullmatch(name)):
                yield number, f"{source.folder}/ may not include <{name}>"
            continue
        target = "include/" + name if name.startswith("hawser/") else name
        if not os.path.isfile(os.path.join(source.root, target)):
            yield number, f'"{name}" is no file when seen from the root (no relative includes)'
        elif not any(target.startswith(folder + "/") or
                     ("/" in folder and target.startswith(folder)) for folder in zone.folders):
            yield number, f"{source.path} may not include {target}"


# The folders of proto/, the lowest first: each may include itself and those before it. Two headers
# lie in proto/ itself. All folders may include the NIC contract, only the highest the endpoint.
FLOORS = ("base", "wire", "region", "path", "message", "session", "peer", "service", "endpoint")
HIGHEST_ALONE = "proto/endpoint.hpp"
# The sources of the rules may include these from above them, though no header may: the state of
# peers, and the services that all rules use.
RULE_FOLDERS = ("path", "message", "session")
FOR_RULES = re.compile(r"proto/(peer|service)/\w+\.hpp")


def rule_floor(source):
    """A folder of proto/ includes none above it."""
    parts = source.path.split("/")
    if parts[0] != "proto" or len(parts) < 3 or not source.is_code:
        return
    if parts[1] not in FLOORS:
        yield 1, f"proto/{parts[1]}/ is none of {', '.join(FLOORS)}"
        return
    floor = FLOORS.index(parts[1])
    for number, found in source.matches(INCLUDE, source.code):
        name = found.group(2)
        other = name.split("/")
        is_above = (other[0] == "proto" and len(other) > 2 and other[1] in FLOORS[floor + 1:]
                    or name == HIGHEST_ALONE and floor + 1 < len(FLOORS))
        if is_above and not (source.suffix == ".cpp" and parts[1] in RULE_FOLDERS and FOR_RULES.fullmatch(name)):
            yield number, f"{name} is above proto/{parts[1]}/"


def rule_own_header(source):
    """A source file includes the header of its name first: so every build shows that it needs no other."""
    if source.suffix != ".cpp" or not os.path.isfile(os.path.join(source.root, source.path[:-4] + ".hpp")):
        return
    own = (source.path[:-4] + ".hpp").removeprefix("include/")
    first = next(source.matches(INCLUDE, source.code), None)
    if first is None or first[1].group(2) != own:
        yield first[0] if first else 1, f'"{own}" comes first'


def has_license(source):
    """Whether the license stands in the first line, or in the one after the name of an interpreter."""
    is_script = source.text.startswith("#!")
    return any(line in (f"// {LICENSE}", f"# {LICENSE}") for line in source.lines[:2 if is_script else 1])


def rule_license(source):
    """Each source file names its license."""
    if source.is_source and not has_license(source):
        yield 1, f"the first line (after #!) is no comment with {LICENSE}"


def rule_size(source):
    """No file that nobody dares to touch."""
    if source.suffix in CODE + (".py", ".sh", ".cmake") and len(source.lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(source.lines)} lines, at most {MAX_LINES}"


FUNCTION = re.compile(r"^(  )?(?!(?:if|for|while|switch|else|do|try|catch|namespace|struct|class|"
                      r"enum|union|extern)\b)[^\s#}].*\).*\{$")


def rule_function(source):
    """Functions that fit on a page. Test cases are told as one story, and may be longer."""
    if source.folder in ("test", "bench"):
        return
    for number, found in source.matches(FUNCTION, source.code):
        end = (found.group(1) or "") + "}"
        for last in range(number, len(source.code)):
            if source.code[last].startswith(end):
                if last + 1 - number >= MAX_FUNCTION_LINES:
                    yield number, f"a function of {last + 2 - number} lines, at most {MAX_FUNCTION_LINES}"
                break


# The link graph is the dependency rule: what a folder's target may link.
LINKS = {
    "hawser_proto": {"hawser_api", "hawser_isal", "hawser_sodium"},
    "hawser_virtual_nics": {"hawser_api", "hawser_proto"},
    "hawser_udp_nic": {"hawser_api", "hawser_proto", "hawser_virtual_nics"},
    "hawser_background": {"hawser_api", "Threads::Threads"},
    "hawser_log": {"hawser_api", "spdlog::spdlog"},
    "hawser_registration": {"hawser_api", "hawser_proto", "hawser_verbs_nic", "hawser_background", "hawser_log"},
    "hawser_verbs_nic": {"hawser_api", "hawser_proto", "hawser_virtual_nics", "hawser_background",
                         "hawser_verbs"},
    "hawser_engine": {"hawser_api", "hawser_proto", "hawser_virtual_nics", "hawser_udp_nic",
                      "hawser_verbs_nic", "hawser_background", "hawser_log", "hawser_registration", "hawser_dpdk", "hawser_sodium", "Boost::headers", "fmt::fmt", "spdlog::spdlog",
                      "Threads::Threads"},
    "hawser_coll": {"hawser_api"},
    "hawser_coll_c": {"hawser_coll", "hawser_engine"},
    "hawser_ofi": {"hawser_api", "hawser_libfabric"},
    "hawser_sim": {"hawser_api", "hawser_proto", "hawser_virtual_nics"},
}
LIBRARY = re.compile(r"hawser_library\(\s*(\w+)([^)]*)\)")


def rule_link(source):
    """A folder's target links only what the folder may include."""
    if source.name != "CMakeLists.txt":
        return
    text = re.sub(r"#[^\n]*", "", source.text)
    for found in LIBRARY.finditer(text):
        name, arguments = found.groups()
        links = set(arguments.split("LINKS")[1].split()) if "LINKS" in arguments else set()
        wrong = links - LINKS[name] if name in LINKS else set()
        if wrong:
            yield text[:found.start()].count("\n") + 1, f"{name} may not link {' '.join(sorted(wrong))}"


def rule_name(source):
    """snake_case file names, but for the one that Python asks for."""
    if source.name != "__init__.py" and source.suffix in CODE + (".py",) and not re.fullmatch(r"[a-z][a-z0-9_]*\.[a-z]+", source.name):
        yield 1, "file names are snake_case"


def rule_pragma_once(source):
    if source.suffix in (".hpp", ".h"):
        if not any(line.strip() == "#pragma once" for line in source.code):
            yield 1, "a header needs #pragma once"


class Ban(NamedTuple):
    pattern: re.Pattern
    message: str
    folders: tuple = FOLDERS
    headers_only: bool = False
    except_for: tuple = ()


BANS = (
    Ban(re.compile(r"std::chrono|\bclock_gettime\b|\bgettimeofday\b|\brdtsc|<(chrono|ctime)>"),
        "no clocks: time comes in as an argument", SANS_IO),
    Ban(re.compile(r"std::j?thread\b|std::async\b|\bpthread_|<thread>|<future>"),
        "no threads", SANS_IO),
    Ban(re.compile(r"\b(socket|sendto|recvfrom|sendmsg|recvmsg|epoll_wait)\s*\("),
        "no sockets", SANS_IO),
    Ban(re.compile(r"random_device|\bs?rand\s*\("),
        "randomness comes from an injected, seeded generator",
        tuple(f for f in FOLDERS if f != "engine")),
    Ban(re.compile(r"\b(sleep_for|sleep_until|usleep|nanosleep|clock_nanosleep|sleep)\s*\("),
        "tests don't sleep: drive time, or wait for the event", ("test",)),
    Ban(re.compile(r"#\s*define\s+(private|protected)\b"), "no reaching into privates"),
    Ban(re.compile(r"friend\s+(class|struct)\s+\w*(Test|Peer)\w*\s*;"),
        "no reaching into privates"),
    Ban(re.compile(r"std::(cout|cerr|clog|printf|puts)\b|\bf?printf\s*\("),
        "libraries don't print", LIBRARIES,
        except_for=("proto/base/assert.cpp",)),  # the last words of a broken invariant
    Ban(re.compile(r"(?<![\w.])assert\s*\(|<cassert>|<assert\.h>"),
        "assert() is gone in release: HAWSER_ASSERT"),
    Ban(re.compile(r"HAWSER_ASSERT\(.*\b(push|pop|put|set|insert|erase|try_\w+)\("),
        "an assertion has no side effect: do it first, then assert on the result"),
    Ban(re.compile(r"\busing\s+namespace\b"), "no using namespace in headers", FOLDERS, True),
)


def rule_ban(source):
    """Words that have no place in a folder's code; comments and strings may name them."""
    if not source.is_code:
        return
    for ban in BANS:
        if source.folder not in ban.folders or source.path in ban.except_for:
            continue
        if ban.headers_only and source.suffix not in (".hpp", ".h"):
            continue
        for number, _ in source.matches(ban.pattern, source.code):
            yield number, ban.message


TEST_PROGRAM = re.compile(r"hawser_test\(\s*(\w+)([^)]*)\)")
KEYWORD = re.compile(r"[A-Z]+")
NOT_VIRTUAL = re.compile(
    r"\b(steady_clock|system_clock|high_resolution_clock|clock_gettime|gettimeofday|socket|fork|vfork|popen|"
    r"posix_spawnp?|waitpid|execvp?|sched_yield)\b(?=\s*(?:\(|::))"
    r"|#\s*include\s*<(sys/socket|sys/wait|spawn)\.h>")


@functools.lru_cache(maxsize=None)
def virtual_files(folder):
    """The files that the CMakeLists.txt of a folder lists under VIRTUAL."""
    path = os.path.join(folder, "CMakeLists.txt")
    if not os.path.isfile(path):
        return frozenset()
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"#[^\n]*", "", file.read())
    found = set()
    for program in TEST_PROGRAM.finditer(text):
        keyword = None
        for word in program.group(2).split():
            if KEYWORD.fullmatch(word):
                keyword = word
            elif keyword == "VIRTUAL":
                found.add(os.path.normpath(os.path.join(folder, word)))
    return frozenset(found)


def rule_virtual(source):
    """A test that stands under VIRTUAL reads no clock, opens no socket and starts no process."""
    if source.folder != "test" or source.suffix != ".cpp":
        return
    path = os.path.join(source.root, source.path)
    folder = os.path.dirname(path)
    while len(folder) > len(source.root):
        if path in virtual_files(folder):
            for number, found in source.matches(NOT_VIRTUAL, source.code):
                yield number, f"{found.group(0)} in a test that is listed under VIRTUAL: list it under CLOCK"
        folder = os.path.dirname(folder)


# Written in two parts, so that this file passes.
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" "DO", "FIX" "ME", "XX" "X", "HA" "CK")) + r")\b")
MACHINE_PATH = re.compile("(?<![\\w.])/(" "work|home|root|Users|tmp/hw" ")/")


def rule_unfinished(source):
    """What is not finished is not here."""
    for number, found in source.matches(UNFINISHED):
        yield number, f"{found.group(0)}: finish it or leave it out"


def rule_machine_path(source):
    """No path of the machine that it was written on."""
    for number, found in source.matches(MACHINE_PATH):
        yield number, f"absolute path {found.group(0)}"


RULES = (rule_include, rule_floor, rule_own_header, rule_virtual, rule_link, rule_license, rule_size, rule_function,
         rule_name, rule_pragma_once, rule_ban, rule_unfinished, rule_machine_path)


def paths(root, endings):
    """The files of the tree that end so, and all of .ci."""
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        relative = "" if relative == "." else relative + "/"
        folders[:] = sorted(f for f in folders if f == ".ci" or
                            not (f.startswith(".") or f == "__pycache__" or relative + f == "build"))
        for name in sorted(files):
            if name.endswith(endings) or relative.startswith(".ci/"):
                yield relative + name


def sources(root):
    for path in paths(root, TEXT):
        yield Source(root, path)


def check(root):
    """All complaints about a tree, as (path, line, rule, message)."""
    complaints = []
    for source in sources(root):
        for rule in RULES:
            for line, message in rule(source):
                complaints.append((source.path, line, rule.__name__, message))
    return complaints


def main():
    root = os.path.abspath(sys.argv[1])
    complaints = check(root)
    for path, line, rule, message in complaints:
        print(f"{path}:{line}: {message} [{rule}]")
    print(f"{sum(1 for _ in sources(root))} files, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
