#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the style checks: every rule rejects its bad example, and a good tree passes."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs  # noqa: E402
import promises  # noqa: E402
import style  # noqa: E402

GOOD = {
    "include/hawser/types.hpp": "#pragma once\n#include <cstdint>\n",
    "proto/codec.hpp": '#pragma once\n#include <isa-l/crc.h>\n#include "hawser/types.hpp"\n'
                       "// std::chrono and assert( may be named in a comment\n",
    "proto/codec.cpp": '#include "proto/codec.hpp"\nconst char* text = "std::thread using namespace";\n'
                       "static_assert(sizeof(int) == 4);\nint big = 1'000'000; // sleep(\n",
    "engine/driver/memory/memory_nic.hpp": '#pragma once\n#include "proto/codec.hpp"\n',
    "engine/driver/udp/udp_nic.cpp": "#include <sys/socket.h>\n"
                                 '#include "engine/driver/memory/memory_nic.hpp"\n',
    "engine/ring.cpp": "#include <rte_ring.h>\n#include <boost/lockfree/spsc_queue.hpp>\n",
    "coll/ring.cpp": '#include "hawser/types.hpp"\n',
    "sim/fabric.cpp": '#include "engine/driver/memory/memory_nic.hpp"\n',
    "tool/main.cpp": '#include <CLI/CLI.hpp>\n#include "engine/driver/memory/memory_nic.hpp"\n'
                     "int main() { std::printf(\"x\"); }\n",
    "test/support/fabric.hpp": "#pragma once\n",
    "test/proto/codec_test.cpp": '#include <catch2/catch.hpp>\n#include "test/support/fabric.hpp"\n',
    "test/proto/CMakeLists.txt": "hawser_test(test_proto VIRTUAL codec_test.cpp CLOCK clock_test.cpp LINKS x)\n",
    "test/proto/clock_test.cpp": "int pid = fork();\n",
    "coll/CMakeLists.txt": "hawser_library(hawser_coll SOURCES ring.cpp LINKS hawser_api)\n",
    "tool/long.cpp": "namespace a {\n" + "int x;\n" * 70 + "}\nvoid f() {\n" + "  g();\n" * 58 + "}\n",
    "build/release/x.cpp": "assert(false);\n",
    "proto/endpoint.hpp": "#pragma once\n",
    "proto/endpoint/owners.hpp": '#pragma once\n#include "proto/base/time.hpp"\n#include "proto/endpoint.hpp"\n',
    "proto/base/time.hpp": "#pragma once\n",
    "proto/peer/peer.hpp": "#pragma once\n",
    "proto/path/paths.cpp": '#include "proto/base/time.hpp"\n#include "proto/peer/peer.hpp"\n',
}

LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"

# Name of the rule, path, text. Each text gets the license line, except those of that very rule.
BAD = (
    ("license", "tool/a.cpp", "int x;\n"),
    ("license", "tool/a.cpp", "int x;\n" + LICENSE),
    ("license", "test/a.py", "\n" + LICENSE.replace("//", "#")),
    ("license", "tool/CMakeLists.txt", "# SPDX-License-Identifier: MIT\n"),
    ("license", "run.sh", "#!/bin/sh\nset -e\n" + LICENSE.replace("//", "#")),
    ("include", "include/hawser/a.hpp", '#pragma once\n#include "proto/codec.hpp"\n'),
    ("include", "include/hawser/a.hpp", "#pragma once\n#include <sys/socket.h>\n"),
    ("include", "include/hawser/a.hpp", "#pragma once\n#include <fmt/core.h>\n"),
    ("include", "proto/a.cpp", '#include "engine/driver/memory/memory_nic.hpp"\n'),
    ("include", "proto/a.cpp", "#include <rte_ring.h>\n"),
    ("include", "proto/a.cpp", "#include <unistd.h>\n"),
    ("include", "proto/a.cpp", '#include "codec.hpp"\n'),
    ("include", "proto/a.cpp", '#include "../include/hawser/types.hpp"\n'),
    ("include", "proto/a.cpp", '#include "proto/missing.hpp"\n'),
    ("include", "engine/a.cpp", '#include "coll/ring.cpp"\n'),
    ("include", "engine/a.cpp", "#include <CLI/CLI.hpp>\n"),
    ("include", "engine/driver/memory_rings.cpp", "#include <sys/socket.h>\n"),
    ("include", "engine/driver/fault/fault_nic.cpp", "#include <unistd.h>\n"),
    ("include", "engine/driver/fault/fault_nic.cpp", '#include "engine/ring.cpp"\n'),
    ("include", "coll/a.cpp", '#include "proto/codec.hpp"\n'),
    ("include", "plugin/a.cpp", '#include "engine/ring.cpp"\n'),
    ("include", "sim/a.cpp", '#include "engine/driver/udp/udp_nic.cpp"\n'),
    ("include", "sim/a.cpp", "#include <sys/socket.h>\n"),
    ("include", "tool/a.cpp", '#include "test/support/fabric.hpp"\n'),
    ("include", "bench/a.cpp", '#include "test/support/fabric.hpp"\n'),
    ("include", "docs/a.cpp", '#include "proto/codec.hpp"\n'),
    ("floor", "proto/base/a.cpp", '#include "proto/path/lanes.hpp"\n'),
    ("floor", "proto/path/a.hpp", '#pragma once\n#include "proto/endpoint/owners.hpp"\n'),
    ("floor", "proto/path/a.hpp", '#pragma once\n#include "proto/peer/peer.hpp"\n'),
    ("floor", "proto/base/a.cpp", '#include "proto/peer/peer.hpp"\n'),
    ("floor", "proto/peer/a.cpp", '#include "proto/endpoint/owners.hpp"\n'),
    ("floor", "proto/path/a.cpp", '#include "proto/endpoint/owners.hpp"\n'),
    ("floor", "proto/session/a.cpp", '#include "proto/endpoint/owners.hpp"\n'),
    ("floor", "proto/path/a.cpp", '#include "proto/endpoint.hpp"\n'),
    ("floor", "proto/misc/a.cpp", "int x;\n"),
    ("own_header", "proto/codec.cpp", '#include <array>\n#include "proto/codec.hpp"\n'),
    ("own_header", "proto/codec.cpp", "int x;\n"),
    ("link", "coll/CMakeLists.txt", "hawser_library(hawser_coll\n SOURCES a.cpp\n LINKS hawser_proto)\n"),
    ("function", "tool/a.cpp", "void f() {\n" + "  g();\n" * 59 + "}\n"),
    ("function", "tool/a.hpp", "#pragma once\nclass A {\n  int f() const {\n" + "    g();\n" * 59 + "  }\n};\n"),
    ("size", "tool/a.cpp", "int x;\n" * 600),
    ("size", "test/a.py", "x = 1\n" * 600),
    ("name", "tool/NicTable.cpp", "\n"),
    ("name", "tool/nic-table.hpp", "#pragma once\n"),
    ("pragma_once", "tool/a.hpp", "// #pragma once\n"),
    ("ban", "proto/a.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    ("ban", "coll/a.cpp", "#include <chrono>\n"),
    ("ban", "coll/a.cpp", "std::thread t;\n"),
    ("ban", "proto/a.cpp", "int s = socket(1, 2, 3);\n"),
    ("ban", "proto/a.cpp", "std::random_device d;\n"),
    ("ban", "test/proto/a_test.cpp", "std::random_device d;\n"),
    ("ban", "tool/a.cpp", "int x = rand();\n"),
    ("ban", "test/a_test.cpp", "std::this_thread::sleep_for(x);\n"),
    ("ban", "test/a_test.cpp", "usleep(10);\n"),
    ("ban", "test/a_test.cpp", "#define private public\n"),
    ("ban", "proto/a.hpp", "#pragma once\nclass A { friend class CodecTest; };\n"),
    ("ban", "engine/a.cpp", 'void f() { std::cout << "x"; }\n'),
    ("ban", "proto/a.cpp", 'void f() { std::fprintf(stderr, "x"); }\n'),
    ("ban", "tool/a.cpp", "void f() { assert(1); }\n"),
    ("ban", "tool/a.cpp", "#include <cassert>\n"),
    ("ban", "tool/a.hpp", "#pragma once\nusing namespace std;\n"),
    ("virtual", "test/proto/codec_test.cpp", "int pid = fork();\n"),
    ("virtual", "test/proto/codec_test.cpp", "auto t = std::chrono::steady_clock::now();\n"),
    ("virtual", "test/proto/codec_test.cpp", "#include <sys/wait.h>\n"),
    ("ban", "proto/a.cpp", "void f() { HAWSER_ASSERT(ring.push(1)); }\n"),
    ("unfinished", "tool/a.cpp", "// TO" "DO: later\n"),
    ("unfinished", "docs/a.md", "FIX" "ME\n"),
    ("machine_path", "tool/a.cpp", '// see /ho' 'me/me/x\n'),
    ("machine_path", "run.sh", "cd /wo" "rk/main\n"),
)


class StyleTest(unittest.TestCase):
    def complaints(self, files, unlicensed=""):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                full = os.path.join(root, path)
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text if path == unlicensed else LICENSE + text)
            return style.check(root)

    def test_a_good_tree_passes(self):
        self.assertEqual(self.complaints(GOOD), [])

    def test_each_bad_example_breaks_its_rule_and_no_other(self):
        for rule, path, text in BAD:
            with self.subTest(path=path, text=text[:60]):
                found = self.complaints({**GOOD, path: text}, path if rule == "license" else "")
                self.assertTrue(found, "not rejected")
                self.assertLessEqual({(p, r) for p, _, r, _ in found},
                                     {(path, "rule_" + rule), (path, "rule_include")})
                self.assertIn("rule_" + rule, {r for _, _, r, _ in found})

    def test_every_rule_has_a_bad_example(self):
        self.assertEqual({rule.__name__ for rule in style.RULES}, {"rule_" + rule for rule, _, _ in BAD})

    def test_every_ban_has_a_bad_example(self):
        messages = set()
        for rule, path, text in BAD:
            if rule == "ban":
                messages |= {m for _, _, _, m in self.complaints({**GOOD, path: text})}
        self.assertLessEqual({ban.message for ban in style.BANS}, messages)


class DocsTest(unittest.TestCase):
    def complaints(self, page, text):
        with tempfile.TemporaryDirectory() as root:
            for path, content in {"README.md": "", "docs/a.md": "", "docs/lab/c.md": "", "proto/codec.hpp": "",
                                  page: text}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            return docs.check(root)

    def test_what_exists_may_be_named(self):
        for page, text in (("docs/a.md", "`proto/codec.hpp`, `proto/*.hpp`, `std::x`, [r](../README.md)"),
                           ("README.md", "[a](docs/a.md)\n\n    proto/    the protocol\n"),
                           ("docs/a.md", "[c](lab/c.md#part)"), ("docs/lab/c.md", "[a](../a.md), docs/a.md"),
                           ("proto/a.cpp", "// docs/a.md and docs/lab/c.md, \"The rule\"\n"),
                           ("proto/README.md", "| `codec.{hpp,cpp}` | [a](../docs/a.md) |"),
                           ("proto/README.md", "`cod*.cpp`"),
                           ("CONTRIBUTING.md", "[c](docs/lab/c.md), [of others](https://a.example/b.md)")):
            self.assertEqual(self.complaints(page, text), [])

    def test_what_does_not_exist_may_not_be_named(self):
        for page, text in (("docs/a.md", "`proto/gone.hpp`"), ("docs/a.md", "`proto/{codec,gone}.hpp`"),
                           ("docs/a.md", "[b](b.md)"), ("README.md", "    gone/    nothing\n"),
                           ("README.md", "`tool/*.cpp`"), ("docs/lab/c.md", "[a](a.md)"),
                           ("docs/lab/c.md", "`proto/gone.hpp`"), ("docs/a.md", "See docs/c.md."),
                           ("proto/README.md", "codec.hpp"), ("proto/README.md", "`codec.hpp` `proto/gone.hpp`"),
                           ("CONTRIBUTING.md", "[c](docs/c.md)"), ("proto/a.cpp", "// docs/c.md\n"),
                           ("test/a.mutants", "# docs/c.md\n"), ("test/CMakeLists.txt", "# docs/c.md\n")):
            self.assertEqual(len(self.complaints(page, text)), 1, text)

    def test_prose_is_wrapped(self):
        long_line = "a" * 101
        for text in (long_line, f"- {long_line}", f"a\n\n```\nb\n```\n{long_line}"):
            self.assertEqual(len(self.complaints("docs/a.md", text)), 1, text)
        for text in ("a" * 100, f"| {long_line} |", f"```\n{long_line}\n```", f"    {long_line}"):
            self.assertEqual(self.complaints("docs/a.md", text), [])
        self.assertEqual(self.complaints("proto/a.cpp", f"// {long_line}\n"), [])


class PromisesTest(unittest.TestCase):
    def complaints(self, page, test):
        with tempfile.TemporaryDirectory() as root:
            for path, content in {"docs/internals/protocol.md": page, "test/a_test.cpp": test}.items():
                os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(content)
            return promises.check(root)[2]

    def test_a_promise_with_a_test_is_fine(self):
        page = "See [X1].\n\n## 7. A\n\nIt is so. [M1] And so,\nalways. [M2]\n\n| no | prose |\n"
        test = 'TEST_CASE("a", "[M1][M2]") {}\nTEST_CASE("b") {}\nTEST_CASE("c", "[.]") {}\n'
        self.assertEqual(self.complaints(page, test), [])

    def test_an_item_is_a_promise_and_a_reason_is_none(self):
        page = ("## 7. A\n\n- It is so:\n  - now. [M1]\n  *Why:* It\n  helps.\n- And so,\n  always. [M2]\n\n"
                "*Why:* Because.\n")
        self.assertEqual(self.complaints(page, 'TEST_CASE("a", "[M1][M2]") {}\n'), [])

    def test_what_is_wrong_is_told(self):
        one = 'TEST_CASE("a", "[M1]") {}\n'
        for page, test in (("## 7. A\n\nIt is so. [M1]\n", 'TEST_CASE("a") {}\n'),
                           ("## 7. A\n\nIt is so. [M1] And so.\n", one),
                           ("## 7. A\n\n- And so.\n- It is so. [M1]\n", one),
                           ("## 7. A\n\n- It is so. [M1]\n  *Why:* X.\n\nAnd so.\n", one),
                           ("## 7. A\n\nIt is so. [M1]\n\n## 9. B\n\nSo. [M1]\n", one),
                           ("## 9. A\n\nIt is so. [M1]\n", one + 'TEST_CASE("b", "[M2]") {}\n')):
            self.assertEqual(len(self.complaints(page, test)), 1, page)


class ScriptsTest(unittest.TestCase):
    """A script without its input says so in one line."""

    def complaint(self, script, *arguments):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
        done = subprocess.run([sys.executable, path, *arguments], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def test_docs_without_a_tree(self):
        self.assertIn("which tree?", self.complaint("docs.py"))
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("which tree?", self.complaint("docs.py", folder))

    def test_coverage_without_a_run(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("no run has counted", self.complaint("../coverage/coverage.py", "--read-only", "--build", folder))


if __name__ == "__main__":
    unittest.main()
