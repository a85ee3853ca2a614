# SPDX-License-Identifier: BSD-3-Clause
"""The programs of the package's page and of examples/ run as they stand there."""

import os
import re
import subprocess
import sys
import unittest

EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples", "echo.py")
PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "README.md")


class Readme(unittest.TestCase):
    def test_programs(self):
        with open(PAGE, encoding="utf-8") as file:
            blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", file.read(), re.MULTILINE)
        programs = [re.sub(r"^    ", "", block, flags=re.MULTILINE) for block in blocks if "import causeway" in block
                    or "import asyncio" in block]
        self.assertEqual(len(programs), 1)
        for program in programs:
            done = subprocess.run([sys.executable, "-B", "-W", "error", "-c", program.lstrip("\n")],
                                  capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_example(self):
        command = [sys.executable, "-B", EXAMPLE]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            self.addCleanup(server.kill)
            place = re.fullmatch(r"listening at (\S+) (\d+)\n", server.stdout.readline())
            self.assertIsNotNone(place)
            ask = [*command, "localhost", place[2], "hello"]
            done = subprocess.run(ask, capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "hello\n", ""))
            self.assertEqual(server.stdout.readline(), "end of a client: it closed\n")
            server.kill()
        done = subprocess.run(ask, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no connection to localhost", done.stderr)
        self.assertNotIn("Traceback", done.stderr)


if __name__ == "__main__":
    unittest.main()
