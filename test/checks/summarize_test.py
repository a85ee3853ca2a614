#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of summarize.py with outputs as ctest and cmocka print them."""

import contextlib
import io
import os
import sys
import tempfile
import unittest
from xml.sax.saxutils import escape

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import summarize  # noqa: E402

BEGIN = "[==========] Running %d test(s).\n"
NAMED = "[==========] group one: Running %d test(s).\n"
END = "[==========] 2 test(s) run.\n"
OK = "[ RUN      ] %s\n[       OK ] %s\n"
FAILED = "[ RUN      ] %s\n[  ERROR   ] --- 1 != 2\n[   LINE   ] --- x.c:1: error: Failure!\n[  FAILED  ] %s\n"
SKIPPED = "[ RUN      ] %s\n[  SKIPPED ] %s\n"


def ok(name):
    return OK % (name, name)


def failed(name):
    return FAILED % (name, name)


def entry(name, status, output, skipped=None):
    mark = '<skipped message="%s"/>' % skipped if skipped else ""
    return '<testcase name="%s" status="%s">%s<system-out>%s</system-out></testcase>' % (
        name, status, mark, escape(output))


class Summarize(unittest.TestCase):
    def run_on(self, entries=(), steps=None, raw=None):
        """Returns exit status and printed lines for one file of entries, without the outputs."""
        with tempfile.TemporaryDirectory() as directory:
            if entries or raw is not None:
                with open(os.path.join(directory, "debug.xml"), "w", encoding="utf-8") as file:
                    file.write("<testsuite>%s</testsuite>" % "".join(entries) if raw is None else raw)
            if steps is not None:
                with open(os.path.join(directory, "steps.tsv"), "w", encoding="utf-8") as file:
                    file.write(steps)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                status = summarize.main([directory])
            self.printed = printed.getvalue()
            return status, [line for line in self.printed.splitlines() if line and line[0] not in "|^"]

    def check(self, expected_status, expected_last, *entries, **more):
        status, lines = self.run_on(entries, **more)
        self.assertEqual((expected_status, expected_last), (status, lines[-1]))
        return lines[:-1]

    def test_cases_of_groups_are_added_up(self):
        output = BEGIN % 2 + ok("a") + ok("b") + END + "[  PASSED  ] 2 test(s).\n" + NAMED % 1 + ok("a")
        self.check(0, "3 passed, 0 failed", entry("u", "run", output))

    def test_a_plain_program_is_one_case(self):
        self.check(0, "1 passed, 0 failed", entry("u", "run", "fine\n"))
        self.assertEqual(["failed: debug: u"], self.check(1, "0 passed, 1 failed", entry("u", "fail", "bad\n")))

    def test_the_list_of_failures_is_not_counted_again(self):
        output = BEGIN % 2 + ok("a") + failed("b") + END + "[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n"
        self.assertEqual(["failed: debug: u: b"], self.check(1, "1 passed, 1 failed", entry("u", "fail", output)))

    def test_text_before_an_outcome(self):
        output = BEGIN % 1 + "[ RUN      ] a\nno newline here[       OK ] a\n"
        self.check(0, "1 passed, 0 failed", entry("u", "run", output))

    def test_skipped_case_and_skipped_entry(self):
        output = BEGIN % 2 + ok("a") + SKIPPED % ("b", "b") + END
        self.check(0, "1 passed, 0 failed, 2 skipped", entry("u", "run", output),
                   entry("v", "notrun", "", "SKIP_RETURN_CODE=77"))

    def test_crash_leaves_the_rest_failed(self):
        output = BEGIN % 3 + ok("a") + "[ RUN      ] b\n"
        self.assertEqual(["failed: debug: u: b (did not end)"],
                         self.check(1, "1 passed, 2 failed", entry("u", "fail", output)))

    def test_crash_before_the_first_case(self):
        self.check(1, "0 passed, 3 failed", entry("u", "fail", BEGIN % 3))

    def test_failure_after_the_last_case(self):
        self.check(1, "2 passed, 1 failed", entry("u", "fail", BEGIN % 2 + ok("a") + ok("b") + END))

    def test_failure_that_was_expected(self):
        self.check(0, "1 passed, 0 failed", entry("u", "run", BEGIN % 2 + failed("a") + ok("b") + END))

    def test_missing_program_and_failed_fixture(self):
        self.check(1, "1 passed, 2 failed", entry("u", "run", ""),
                   entry("v", "notrun", "", "Unable to find executable"),
                   entry("w", "notrun", "", "Fixture dependency failed"))

    def test_nothing_ran(self):
        self.check(1, "0 passed, 0 failed")
        self.check(1, "0 passed, 0 failed, 1 skipped", entry("v", "notrun", "", "SKIP_RETURN_CODE=77"))

    def test_file_without_tests_or_broken(self):
        self.check(1, "1 passed, 1 failed", raw="<testsuite/>", steps="passed\tlint\n")
        self.check(1, "1 passed, 1 failed", raw="<testsuite", steps="passed\tlint\n")

    def test_output_of_a_failure_is_printed(self):
        self.check(1, "1 passed, 1 failed", entry("u", "fail", "reason\n"), entry("v", "run", "chatter\n"))
        self.assertIn("| reason\n^ debug: u\n", self.printed)
        self.assertNotIn("chatter", self.printed)

    def test_steps(self):
        steps = "passed\ta\nskipped\tb\nfailed\tc d\nnonsense\te\n"
        self.assertEqual(["failed: c d", "failed: e"], self.check(1, "1 passed, 2 failed, 1 skipped", steps=steps))


if __name__ == "__main__":
    unittest.main(verbosity=0)
