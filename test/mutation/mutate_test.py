#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""mutate.py on small sources: the bugs that it makes, and the tables that it refuses."""

import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import mutate  # noqa: E402

SOURCE = """#include "proto/a.hpp"
int f(int a, int b) {
  if (a < b) return 1;  // as "it" is
  g(a);
  const bool both = a > 0 && b > 0;
  for_each([&](int c) {
    h(c + 1);
  });
  return both;
}
"""
TABLE = """mutant  late
breaks  a promise
what    It comes too late.
{more}edit    a.cpp
<<<
{text}
===
{bug}
>>>
"""


class MutateTest(unittest.TestCase):
    def generate(self, text="a < b", bug="a <= b", more="", mechanical=False, source=SOURCE):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "proto"))
            for path, content in (("proto/a.cpp", source), ("proto/nic.hpp", "int x;\n"),
                                  ("t.mutants", TABLE.format(text=text, bug=bug, more=more))):
                with open(os.path.join(folder, path), "w", encoding="utf-8") as file:
                    file.write(content)
            out = os.path.join(folder, "out")
            mutate.generate(folder, out, [os.path.join(folder, "t.mutants")], mechanical)
            with open(os.path.join(out, "proto/a.cpp"), encoding="utf-8") as file:
                made = file.read()
            with open(os.path.join(out, "mutants.inc"), encoding="utf-8") as file:
                return made, file.read()

    def test_an_expression_is_chosen(self):
        made, listed = self.generate()
        self.assertIn("if ((mutated(1) ? (a <= b) : (a < b))) return 1;", made)
        self.assertIn('"late"', listed)

    def test_a_statement_is_chosen(self):
        made, _ = self.generate("  g(a);", "  g(b);")
        self.assertIn("{ if (mutated(1)) { g(b); } else { g(a); } }", made)

    def test_lines_stay(self):
        made, _ = self.generate(mechanical=True)
        self.assertEqual(made.count("\n"), SOURCE.count("\n") + 2)

    def test_mechanical_ones(self):
        made, listed = self.generate(mechanical=True)
        for bug in ("!(a < b)", "(a <= b)", "(a > 0 || b > 0)", "(a >= 0 && b > 0)", "h(c);"):
            self.assertIn(bug, made)
        self.assertIn("dropped statement", listed)

    def test_a_text_that_has_gone_is_refused(self):
        with self.assertRaisesRegex(mutate.TableError, "0 times, not once"):
            self.generate("a << b")

    def test_a_text_that_is_not_alone_is_refused(self):
        with self.assertRaisesRegex(mutate.TableError, "2 times, not once"):
            self.generate(source=SOURCE + SOURCE.replace("f(", "ff("))

    def test_a_bug_that_is_no_whole_statement_is_refused(self):
        for bug in ("  if (a > b)", "  if (a > b) {\n    g(b);", "  g(b)", "  } g(b); {", "  else g(b);",
                    "  while (a > b)", "  g(b));", "  g(b); a +"):
            with self.subTest(bug), self.assertRaisesRegex(mutate.TableError, "late: the new text is no whole"):
                self.generate("  g(a);", bug)
        for bug in ("", "  if (a > b) g(b);", "  // nothing", "  if (a > b) {\n    g(b);\n  } else g(a);\n  g(0);",
                    "  do g(b); while (a < b);", "  for (;;) g(b);", "  return a;"):
            with self.subTest(bug):
                self.generate("  g(a);", bug)

    def test_a_bug_that_is_no_expression_is_refused(self):
        for bug in ("if (a <= b)", "a <= b;", "", "// nothing", "return a", "a) || (b", "(a <= b",
                    "a < b ||", "&& a < b", "a +", "a <", "== b", "a ?"):
            with self.subTest(bug), self.assertRaisesRegex(mutate.TableError, "late: the new text is no expression"):
                self.generate("a < b", bug)
        for bug in ("[&] { g(a); return true; }()", "a++", "--a", "-a", "*b", "&a", "~a"):
            self.generate("a < b", bug)

    def test_a_text_that_is_neither_is_refused(self):
        with self.assertRaisesRegex(mutate.TableError, "late: the text is no expression"):
            self.generate("  if (a < b)", "  if (a <= b)")

    def test_the_end_of_a_name_is_refused(self):
        for before in ("it.", "it->", "it::", "xa"):
            source = SOURCE.replace("a < b", before + "a < b")
            with self.subTest(before), self.assertRaisesRegex(mutate.TableError, "late: the text is only part"):
                self.generate("a < b", "a <= b", source=source)

    def test_an_if_whose_else_would_be_left_is_refused(self):
        source = SOURCE.replace("  g(a);\n", "  if (a) g(a);\n  else g(b);\n")
        with self.assertRaisesRegex(mutate.TableError, "late: an else follows"):
            self.generate("  if (a) g(a);", "", source=source)

    def test_half_a_block_is_refused(self):
        with self.assertRaisesRegex(mutate.TableError, "brackets"):
            self.generate("int f(int a, int b) {", "")

    def test_an_ablation_is_written_as_a_mutant_is(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "m.ablations")
            with open(path, "w", encoding="utf-8") as file:
                file.write(TABLE.replace("mutant", "ablation").format(text="a < b", bug="false", more=""))
            [(found, edits)] = mutate.read_table(path)
        self.assertEqual(("late", "m", "a promise"), (found.name, found.kind, found.breaks))
        self.assertEqual([("a.cpp", "a < b", "false")], edits)

    def test_what_the_simulator_shares_is_refused(self):
        with self.assertRaisesRegex(mutate.TableError, "no proto/nic.hpp"):
            self.generate(more="edit    nic.hpp\n<<<\nint x;\n===\nint y;\n>>>\n")

    def test_survivors_and_seeds(self):
        _, listed = self.generate(more="survives nobody looks\nseeds   4 5\n")
        self.assertIn('"nobody looks", {4, 5}', listed)


if __name__ == "__main__":
    unittest.main()
