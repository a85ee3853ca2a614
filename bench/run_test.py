#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tests of the benchmark's runner and report: parsing, statistics, verdicts. Usage: run_test.py [BINDIR]"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock as mock
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import contestants  # noqa: E402
import plot  # noqa: E402
import report  # noqa: E402
import rows  # noqa: E402
import run  # noqa: E402
import sources  # noqa: E402
import suites  # noqa: E402


def result_row(suite, label, samples, errors=None):
    return {"suite": suite, "label": label, "unit": "usec", "better": "less", "samples": samples,
            "errors": errors or {}}


def results(rows, **more):
    base = {"machine": {"processor": "P", "architecture": "a", "processors": 2, "memory_gib": 4.0, "kernel": "k",
                        "virtual": False, "system": "s"},
            "versions": {"causeway": "1.16.0", "reference": "1.13.1"}, "load_before": 0.0, "quick": False,
            "repetitions": 3, "seconds": 0.5, "cpus": ["0", "1"], "date": "2000-01-01", "rows": rows}
    base.update(more)
    return base


class Parsing(unittest.TestCase):
    def test_rows_of_one_process(self):
        tool, settings = contestants.Tool("causeway", "p", "l", []), run.parse(["bindir", "libdir"])
        with mock.patch.object(contestants, "run", return_value='{"size": 8}\n{"size": 16}\n') as called:
            self.assertEqual(tool.alone(settings, "self", ["-t", "x"]), [{"size": 8}, {"size": 16}])
        command, env = called.call_args.args
        self.assertEqual(command, ["p", "-l", "-c", settings.cpus[0], "--json", "-t", "x"])
        self.assertEqual(env["UCX_TLS"], "self")
        with mock.patch.object(contestants, "run", return_value="no result\n"):
            self.assertRaises(contestants.Failure, tool.alone, settings, "self", [])

    def test_row_of_the_tool(self):
        text = ("| header |\n# percentiles (usec): p50 1.500 p90 2.000 p99 3.000 p99.9 4.000 min 1.000 max 5.000\n"
                "                        2000      1.500     1.600     1.700        4.00       5.00      600000"
                "      700000\n")
        row = contestants.perftest_row(text)
        self.assertEqual(row["iterations"], 2000)
        self.assertEqual(row["p50_us"], 1.5)
        self.assertEqual(row["overall_us"], 1.7)
        self.assertEqual(row["mbps"], 5.0)
        self.assertEqual(row["rate"], 700000)
        self.assertEqual(row["p99_us"], 3.0)

    def test_strange_output_is_a_failure(self):
        for text in ("", "nothing of use\n", "1 2 3\n"):
            with self.assertRaises(contestants.Failure):
                contestants.perftest_row(text)

    def test_key_values(self):
        self.assertEqual(contestants.key_values("a 1.5\nversion 1.16.0\n"), {"a": 1.5, "version": "1.16.0"})

    def test_failed_program(self):
        with self.assertRaisesRegex(contestants.Failure, "status 3: x ERROR what"):
            contestants.run(["sh", "-c", "echo x ERROR what; echo more; exit 3"], dict(os.environ))
        with self.assertRaisesRegex(contestants.Failure, "no end"):
            contestants.run(["sleep", "5"], dict(os.environ), timeout=0.1)
        with self.assertRaisesRegex(contestants.Failure, "cannot start"):
            contestants.run(["/nonexistent/program"], dict(os.environ))


class Measuring(unittest.TestCase):
    def test_contestants_take_turns_and_a_failure_stops_only_its_own(self):
        calls = []

        def good(name):
            def measure():
                calls.append(name)
                return 1.0
            return measure

        def bad():
            calls.append("bad")
            raise contestants.Failure("broken")

        row = rows.Row("s", "l", "u", "less", {"a": good("a"), "bad": bad, "b": good("b")})
        row.measure_once()
        row.measure_once()
        self.assertEqual(calls, ["a", "bad", "b", "b", "a"])
        self.assertEqual(row.as_dict()["samples"], {"a": [1.0, 1.0], "bad": [], "b": [1.0, 1.0]})
        self.assertEqual(row.as_dict()["errors"], {"bad": "broken"})
        calls.clear()
        rows.Row("s", "l", "u", "less", {"a": good("a"), "b": good("b")}, 3).measure_once()
        self.assertEqual(calls, ["a", "b", "b", "a", "a", "b"])

    def test_rows_share_the_runs_of_a_program(self):
        values = iter([{"x": 1.0, "y": 10.0}, {"x": 2.0, "y": 20.0}, None])
        runs = []

        def one():
            runs.append(1)
            found = next(values)
            if found is None:
                raise contestants.Failure("broken")
            return found

        shared = rows.Shared(one)
        table = [rows.Row("s", label, "u", "less", {"a": shared.value(pick)}, 2)
                 for label, pick in (("x", "x"), ("y", "y"), ("both", lambda found: found["x"] + found["y"]))]
        for row in table:
            row.measure_once()
        self.assertEqual([row.samples["a"] for row in table], [[1.0, 2.0], [10.0, 20.0], [11.0, 22.0]])
        self.assertEqual(len(runs), 2)
        for row in table:
            row.measure_once()
        self.assertEqual([row.errors for row in table], [{"a": "broken"}] * 3)
        self.assertEqual(len(runs), 3)

    def test_a_ratio_is_of_neighbours_and_turns_round(self):
        calls = []

        def given(name, value):
            def measure():
                calls.append(name)
                return value
            return measure

        ratio = rows.ratio_of(given("put", 6.0), given("get", 3.0))
        self.assertEqual([ratio(), ratio()], [2.0, 2.0])
        self.assertEqual(calls, ["put", "get", "get", "put"])

    def test_a_slice_follows_the_speed_of_the_one_before(self):
        settings = run.parse(["bindir", "libdir", "--seconds", "0.09"])
        asked = []
        speeds = iter([10.0, 10.0, 30.0, 10.0])  # microseconds a message

        class Spy(contestants.Tool):
            def pair(self, settings, transport, options):
                asked.append((int(options[options.index("-n") + 1]), int(options[options.index("-w") + 1])))
                return {"overall_us": next(speeds), "mbps": 2.0}

        source = sources.tool_source(settings, Spy("causeway", "p", "l", []), "shm", "tag_bw", 65536, "mbps", (), 40, 3)
        for _ in range(3):
            self.assertEqual(source(), 2.0)
        self.assertEqual(asked, [(40, 10), (3000, 750), (3000, 750), (1000, 250)])


class Contestants(unittest.TestCase):
    """Which libraries take part, found by folders that stand for versions."""
    VERSIONS = {"libdir": "1.16.0", "old": "1.13.1", "new": "1.18.1", "newest": "1.23.0", "copy": "1.18.1"}

    def contestants(self, *more):
        settings = run.parse(["bindir", "libdir", "--reference", "old", "--reference-tool", "", *more])
        with mock.patch.object(contestants, "library_of", lambda _, folder: (self.VERSIONS[os.path.basename(folder)],
                                                                     os.path.abspath(folder) + "/libucp.so.0")):
            return contestants.find_contestants(settings)

    def test_further_versions_of_the_reference(self):
        tools, versions = self.contestants("--newer", "new", "--newer", "newest")
        self.assertEqual([tool.name for tool in tools], ["causeway", "reference", "ref. 1.18.1", "ref. 1.23.0"])
        self.assertEqual([tool.libdir for tool in tools][1:], ["old", "new", "newest"])
        self.assertEqual(versions["ref. 1.18.1"], "1.18.1")

    def test_no_version_takes_part_twice_and_ours_is_none(self):
        for folders in (["new", "copy"], ["libdir"]):
            with self.assertRaises(contestants.Failure):
                self.contestants(*[word for folder in folders for word in ("--newer", folder)])

    def test_only_some_rows(self):
        labels = ("shm, a", "tcp, a")
        table = {"s": lambda settings, tools: [rows.Row("s", label, "u", "less", {}) for label in labels]}
        with mock.patch.dict(suites.ROWS, table), tempfile.TemporaryDirectory() as folder:
            settings = run.parse(["bindir", "libdir", "--suites", "s", "--only", "s: tcp", "--out", folder])
            found = results([])
            run.measure_all(settings, [], found)
            self.assertEqual([row["label"] for row in found["rows"]], ["tcp, a"])

    def test_a_run_that_was_cut_off_goes_on(self):
        measured = []

        def source_of(label):
            def source():
                if label == "c" and "c" not in measured:
                    measured.append("c")
                    raise KeyboardInterrupt
                measured.append(label)
                return 1.0
            return source

        table = {"s": lambda settings, tools: [rows.Row("s", label, "u", "less", {"causeway": source_of(label)})
                                               for label in "abc"]}
        with mock.patch.dict(suites.ROWS, table), tempfile.TemporaryDirectory() as folder:
            settings = run.parse(["bindir", "libdir", "--suites", "s", "--repetitions", "1", "--out", folder])
            self.assertRaises(KeyboardInterrupt, run.measure_all, settings, [], results([]))
            settings.resume = True
            found = results([])
            run.measure_all(settings, [], found)
            self.assertEqual(([row["label"] for row in found["rows"]], measured), (["a", "b", "c"], list("abcc")))
            self.assertRaises(contestants.Failure, run.measure_all, settings, [],
                              results([], versions={"causeway": "other"}))

    def test_a_c_library_of_its_own(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "with_libc.sh")
        self.assertEqual(subprocess.run([script], capture_output=True, check=False).returncode, 2)
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([script, folder, "true"], capture_output=True, check=False).returncode, 2)
            shutil.copy(self.libc(), os.path.join(folder, "libc.so.6"))
            with open(os.path.join(folder, "cw-marker"), "w", encoding="ascii"):
                pass
            done = subprocess.run([script, folder, "python3", "-c", "import os; "
                                   f"print(os.path.exists({os.path.dirname(self.libc())!r} + '/cw-marker'))"],
                                  capture_output=True, text=True, check=False)
            if done.returncode in (1, 77) and "True" not in done.stdout:
                self.skipTest("no overlay can be mounted here: " + done.stderr.strip()[:80])
            self.assertEqual((done.returncode, done.stdout), (0, "True\n"))
            self.assertFalse(os.path.exists(os.path.join(os.path.dirname(self.libc()), "cw-marker")))

    @staticmethod
    def libc():
        with open("/proc/self/maps", encoding="ascii") as maps:
            return next(line.split()[-1] for line in maps if "libc.so.6" in line or "/libc-2" in line)


class Suites(unittest.TestCase):
    def settings(self):
        return run.parse(["bindir", "libdir", "--quick"])

    def tools(self):
        return [contestants.Tool(name, "program", "lib", []) for name in ("causeway", "reference", "ref. tool")]

    def test_one_sided_rows_are_those_that_the_promises_name(self):
        labels = [row.label for row in suites.rma_rows(self.settings(), self.tools())]
        self.assertEqual(len(labels), len(set(labels)))
        for suite, start, *_ in report.TARGETS:
            if suite == "rma":
                self.assertEqual(len([label for label in labels if label.startswith(start)]), 1, start)
        for label in ("tcp, put, 4 KiB", "shm, get, user memory, 16 MiB"):
            self.assertIn(label, labels)

    def test_latency_is_swept_over_the_sizes_that_the_promises_name(self):
        rows = list(suites.latency_rows(self.settings(), self.tools()))
        labels = [row.label for row in rows]
        for label in ("shm, 8 B, median", "shm, 1 KiB, median", "shm, 8 KiB, median", "tcp, 64 KiB, median"):
            self.assertEqual(labels.count(label), 1, label)
        for suite, start, *_ in report.TARGETS:
            if suite == "latency":
                self.assertEqual(len([label for label in labels if label.startswith(start)]), 1, start)
        self.assertTrue(all("bare" in row.sources for row in rows))

    def test_rows_of_libraries_are_those_that_the_promises_name(self):
        for suite in ("connect", "endpoints", "memory", "matching"):
            rows = list(suites.ROWS[suite](self.settings(), self.tools()))
            labels = [row.label for row in rows]
            self.assertEqual(len(labels), len(set(labels)))
            for of, start, *_ in report.TARGETS:
                if of == suite:
                    self.assertEqual(len([label for label in labels if label.startswith(start)]), 1, start)
            self.assertTrue(all(set(row.sources) - {"bare"} == {"causeway", "reference"} for row in rows))
        self.assertIn("unexpected, any source, 100,000 queued", labels)
        drawn = plot.pictures([row.as_dict() | {"samples": {"causeway": [1.0], "reference": [2.0]}} for row in rows])
        self.assertEqual(drawn["matching.svg"][2].count('class="curve"'), 6 * 2 * 2)

    def test_only_our_tool_is_asked_for_user_memory_and_for_long_messages(self):
        for row in suites.rma_rows(self.settings(), self.tools()):
            self.assertEqual("ref. tool" in row.sources, ", 8 B, " in row.label and "user memory" not in row.label)

    def test_what_the_system_copies_has_the_bound_of_both_sides(self):
        for row in suites.rma_rows(self.settings(), self.tools()):
            if "shm" in row.label and "user memory" in row.label and row.unit == "MB/s":
                self.assertIn("bare ring", row.sources)
                self.assertEqual("bare both" in row.sources, "MiB" in row.label)

    def test_what_is_promised_has_more_slices(self):
        for suite, start, *_ in report.TARGETS:
            if suite in ("latency", "rate", "bandwidth", "am", "stream"):
                found = [row.slices for row in suites.ROWS[suite](self.settings(), self.tools())
                         if row.label.startswith(start)]
                self.assertEqual(found, [rows.SLICES], start)

    def test_put_and_get_send_from_the_same_processor(self):
        asked = []

        class Spy(contestants.Tool):
            def pair(self, settings, transport, options):
                asked.append((options[1], settings.cpus))
                return {"overall_us": 1.0, "mbps": 2.0}

        settings = self.settings()
        row = suites.even_row(settings, [Spy("causeway", "p", "l", [])], 1 << 20)
        row.measure_once()
        self.assertEqual(row.samples, {"causeway": [1.0] * 3})
        self.assertEqual(len(asked), 8)
        for test, cpus in asked:
            self.assertEqual(cpus, settings.cpus if test == "ucp_put_bw" else settings.cpus[::-1])

    def test_steps_are_of_neighbours_of_one_sweep(self):
        asked = []

        class Spy(contestants.Tool):
            def pair(self, settings, transport, options):
                size = int(options[options.index("-s") + 1])
                asked.append(size)
                return {"overall_us": 1e6, "mbps": float(size)}

            def alone(self, settings, transport, options):
                swept.append((transport, options[-1]))
                return [{"size": 1 << step, "mib_per_s": 3.0 ** step} for step in range(steps)]

        swept, steps = [], 4
        settings = run.parse(["bindir", "libdir", "--quick", "--largest", "8"])
        table = list(suites.steps_rows(settings, [Spy("causeway", "p", "l", []), Spy("ref. tool", "p", "l", [])]))
        self.assertEqual([row.label for row in table][:6], ["self, to 2 B", "self, to 4 B", "self, to 8 B",
                                                            "shm, to 2 B", "shm, to 4 B", "shm, to 8 B"])
        for row in table[:3]: # all of one process, once for each slice
            row.measure_once()
            for sample in row.samples["causeway"]:
                self.assertAlmostEqual(sample, 3.0)
        self.assertEqual(swept, [("self", "1:8")] * 3)
        for row in table[3:6]:
            self.assertEqual(list(row.sources), ["causeway"])
            row.measure_once()
            self.assertEqual(row.samples["causeway"], [2.0] * 3)
        self.assertEqual(asked, [1, 1, 2, 2, 4, 4, 8, 8] + [8, 4, 2, 1] + [1, 2, 4, 8])
        steps = 3
        table = list(suites.steps_rows(settings, [Spy("causeway", "p", "l", [])]))
        table[0].measure_once()
        self.assertIn("other sizes", table[0].errors["causeway"])

    def test_old_tool_gets_by_a_window(self):
        asked = []

        class Spy(contestants.Tool):
            def pair(self, settings, transport, options):
                asked.append(options[:6])
                return {"overall_us": 1.0, "mbps": 2.0}

        for name in ("causeway", "ref. tool"):
            suites.rma_source(self.settings(), Spy(name, "p", "l", []), "shm", "ucp_get_bw", 4096, "mbps")()
        self.assertEqual(asked[0][:4], ["-t", "ucp_get_bw", "-s", "4096"])
        self.assertEqual(asked[-1], ["-t", "ucp_get", "-s", "4096", "-O", "32"])

    def test_active_messages_have_lists_of_four(self):
        rows = list(suites.ROWS["am"](self.settings(), self.tools()))
        self.assertIn("tcp, list of 4 x 1 KiB", [row.label for row in rows])
        self.assertFalse([row for row in suites.ROWS["stream"](self.settings(), self.tools()) if "list" in row.label])


def curve_rows(suite="bandwidth", label="{place}, {size}"):
    """Two places, three contestants, sizes to 64 MiB."""
    rows = []
    for place in ("shm", "tcp"):
        for power in range(27):
            samples = {name: [2.0 ** power * factor, 3.0 ** power * factor]
                       for name, factor in (("causeway", 1), ("reference", 0.5), ("bare", 2))}
            rows.append(result_row(suite, label.format(place=place, size=report.size_text(1 << power)), samples))
    return rows


class Pictures(unittest.TestCase):
    SVG = "{http://www.w3.org/2000/svg}"

    def parts(self, svg):
        root = xml.etree.ElementTree.fromstring(svg)
        return root, [group for group in root.iter(self.SVG + "g") if len(group) > 2]

    def test_curves_differ_without_colour_and_stay_on_the_page(self):
        root, curves = self.parts(plot.pictures(curve_rows())["bandwidth-tag.svg"][2])
        self.assertEqual(len(curves), 6)
        styles = [(curve[0].get("stroke-dasharray"), curve[2].tag, curve[2].get("class")) for curve in curves]
        self.assertEqual(len(set(styles)), 3)
        _, _, width, height = map(float, root.get("viewBox").split())
        for text in root.iter(self.SVG + "text"):
            self.assertTrue(0 <= float(text.get("x")) <= width and 0 <= float(text.get("y")) <= height)
        for bar in root.iter(self.SVG + "line"):
            for name, most in (("x1", width), ("x2", width), ("y1", height), ("y2", height)):
                self.assertTrue(0 <= float(bar.get(name)) <= most)
        words = {"".join(text.itertext()) for text in root.iter(self.SVG + "text")}
        for word in ("Bandwidth of tag messages: shm (MiB/s)", "message size (bytes)", "reference", "1 Mi"):
            self.assertIn(word, words)

    def test_each_kind_of_row_has_its_picture(self):
        sizes = (("latency", "{place}, {size}, median", "latency.svg"), ("am", "{place}, {size}", "bandwidth-am.svg"),
                 ("stream", "{place}, {size}", "bandwidth-stream.svg"),
                 ("rma", "{place}, put, {size}", "bandwidth-put.svg"),
                 ("rma", "{place}, get, user memory, {size}", "bandwidth-get.svg"))
        for suite, label, name in sizes:
            self.assertEqual(list(plot.pictures(curve_rows(suite, label))), [name])
        self.assertEqual(plot.pictures(curve_rows("rma", "{place}, put, {size}, rate")), {})
        self.assertEqual(plot.pictures(curve_rows("startup", "{place}, {size}")), {})

    def test_no_curve_of_one_point_and_nothing_of_what_failed(self):
        rows = [result_row("latency", "shm, 8 B, median", {"causeway": [1.0], "reference": []})]
        self.assertEqual(plot.pictures(rows), {})
        rows.append(result_row("latency", "shm, 16 B, median", {"causeway": [0.0], "reference": [2.0]}))
        rows.append(result_row("latency", "shm, 32 B, median", {"causeway": [5.0], "reference": []}))
        _, curves = self.parts(plot.pictures(rows)["latency.svg"][2])
        self.assertEqual([len(curve) - 1 for curve in curves], [2])

    def test_any_numbers(self):
        curve = plot.Curve("a & <b>", [(0, 1), (100000, 2, 0.5, 3)], 4)
        svg = plot.draw("t", [plot.Panel("p", "(s)", "workers", [curve], bytes_x=False),
                              plot.Panel("empty", "", "", [plot.Curve("c", [], 0)])])
        root, curves = self.parts(svg)
        self.assertEqual(len(curves), 1)
        words = {"".join(text.itertext()) for text in root.iter(self.SVG + "text")}
        self.assertLessEqual({"a & <b>", "0", "1", "100,000", "workers"}, words)
        self.assertNotIn("empty", svg)
        self.assertEqual(plot.draw("t", []), "")

    def test_program(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(plot.main([folder]), 2)
            self.assertEqual(plot.main([os.path.join(folder, "missing.json"), folder]), 1)


class Report(unittest.TestCase):
    def test_median_and_ratio_within_repetitions(self):
        self.assertEqual(report.median([3, 1, 2]), 2)
        self.assertEqual(report.median([4, 1, 2, 3]), 2.5)
        row = result_row("latency", "x", {"causeway": [2.0, 9.0, 3.0], "bare": [1.0, 3.0, 2.0]})
        self.assertEqual(report.ratios(row, "causeway", "bare"), [2.0, 3.0, 1.5])
        self.assertEqual(report.ratios(row, "causeway", "reference"), [])

    def test_sizes(self):
        self.assertEqual([report.size_text(size) for size in (8, 1024, 65536, 1536, 4194304)],
                         ["8 B", "1 KiB", "64 KiB", "1536 B", "4 MiB"])

    def test_verdicts(self):
        label = "shm, 8 B, median"
        met = report.markdown(results([result_row("latency", label, {"bare": [1.0], "causeway": [1.2]})]))
        missed = report.markdown(results([result_row("latency", label, {"bare": [1.0], "causeway": [1.3]})]))
        absent = report.markdown(results([result_row("latency", label, {"bare": [1.0], "causeway": []})]))
        self.assertIn("| met |", met)
        self.assertIn("| MISSED |", missed)
        self.assertIn("not measured", absent)

    def test_verdicts_against_the_reference_and_where_more_is_better(self):
        def verdict(label, better, causeway, reference):
            row = result_row("rma", label, {"causeway": [causeway], "reference": [reference]}) | {"better": better}
            return report.markdown(results([row]))

        self.assertIn("| met |", verdict("shm, get, 8 B, median", "less", 0.49, 1.0))
        self.assertIn("| MISSED |", verdict("shm, get, 8 B, median", "less", 0.51, 1.0))
        self.assertIn("| met |", verdict("shm, put, 8 B, rate", "more", 1.6, 1.0))
        self.assertIn("| MISSED |", verdict("shm, put, 8 B, rate", "more", 1.4, 1.0))

    def test_what_is_over_the_bare_one(self):
        def verdict(causeway):
            return report.verdicts(results([result_row("rma", "shm, get, 8 B, median",
                                                       {"causeway": [causeway], "bare": [0.005]})]))

        self.assertIn("0.024 (0.024 to 0.024) usec | met |", verdict(0.029)[-1])
        self.assertIn("| MISSED |", verdict(0.031)[-1])

    def test_put_and_get_are_even(self):
        def verdict(ratio):
            return report.evenness(results([result_row("rma", "tcp, put against get, 1 MiB", {"causeway": ratio})]))

        self.assertIn("| met |", verdict([0.95, 3.0, 1.05])[0])
        self.assertIn("| MISSED |", verdict([0.8])[0])
        self.assertIn("| MISSED |", verdict([1.25])[0])
        self.assertEqual(verdict([]), [])
        self.assertEqual(report.evenness(results([])), [])

    def test_what_was_missed_has_its_bound_beside_it(self):
        def verdict(label, causeway, **limits):
            samples = {"causeway": [causeway], "reference": [1.0]} | {name.replace("_", " "): [value]
                                                                     for name, value in limits.items()}
            return "\n".join(report.verdicts(results([result_row("rma", label, samples) | {"better": "more"}])))

        label = "shm, put, user memory, 64 KiB"
        self.assertIn("1.10 (1.10 to 1.10); of the reference: bare 0.70, bare ring 1.15 | MISSED |",
                      verdict(label, 1.1, bare=0.7, bare_ring=1.15))
        self.assertNotIn("of the reference:", verdict(label, 1.3, bare=0.7))
        self.assertIn("1.10 (1.10 to 1.10) | MISSED |", verdict(label, 1.1))

    def test_flatness(self):
        def verdict(empty, full):
            return report.markdown(results([
                result_row("matching", f"posted, exact, {depth} queued", {"causeway": [value], "reference": [value]})
                for depth, value in (("0", empty), ("100,000", full))]))

        self.assertIn("1.90 (1.90 to 1.90) | met |", verdict(100.0, 190.0))
        self.assertIn("2.10 (2.10 to 2.10) | MISSED |", verdict(100.0, 210.0))
        self.assertEqual(report.flatness(results([])), [])

    def test_cliffs(self):
        def curve(ratios):
            return [result_row("steps", f"tcp, to {report.size_text(128 << step)}",
                               {"causeway": ratio, "reference": ratio}) | {"unit": "times"}
                    for step, ratio in enumerate(ratios)]

        self.assertEqual(report.size_number(report.size_text(3 << 20)), 3 << 20)
        self.assertEqual(report.steps(curve([[2.0, 0.1, 2.0], [0.75], []]), "tcp", "causeway"),
                         [(2.0, 128), (0.75, 256)])
        even = report.markdown(results(curve([[2.0], [0.93]])))
        steep = report.markdown(results(curve([[2.0], [0.88], [1.5]])))
        self.assertIn("lowest step 0.93, to 256 B | met |", even)
        self.assertIn("lowest step 0.88, to 256 B; below 0.9: 256 B 0.88 | MISSED |", steep)
        self.assertNotIn("shm", steep)

    def test_newer_versions_have_columns_and_a_table_of_ratios(self):
        def one(ours, old, new):
            return results([result_row("latency", "shm, 8 B, median", {
                "causeway": ours, "reference": old, "ref. tool": old, "ref. 1.23.0": new})],
                versions={"causeway": "1.16.0", "reference": "1.13.1", "ref. 1.23.0": "1.23.0"})

        text = report.markdown(one([1.0], [2.0], [4.0]))
        self.assertIn("| causeway / ref. tool | causeway / ref. 1.23.0 |", text)
        self.assertEqual(text.count("| 0.25 (0.25 to 0.25) |"), 1)
        self.assertEqual((report.main([]), report.main(["/nonexistent/results.json"])), (2, 1))
        # The second run's reference failed: its ratios are not taken against another run's samples.
        table = report.versions_table([one([1.0], [2.0], [4.0]), one([3.0], [], [4.0])])
        self.assertEqual(table[0], "| suite | quantity | unit | causeway | / 1.13.1 | / 1.23.0 |")
        self.assertEqual(table[2], "| latency | shm, 8 B, median | usec | 2.000 | 0.50 (0.50 to 0.50) "
                                   "| 0.50 (0.25 to 0.75) |")

    def test_failures_and_warnings_are_shown(self):
        row = result_row("rate", "shm", {"causeway": [], "reference": [5.0]}, {"causeway": "status 255: why"})
        text = report.markdown(results([row], load_before=3.0, quick=True, versions={"causeway": "1.16.0"}))
        self.assertIn("failed", text)
        self.assertIn("status 255: why", text)
        self.assertIn("busy", text)
        self.assertIn("quick trial", text)
        self.assertIn("no comparison", text)

    def test_update_replaces_only_between_the_marks(self):
        old = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
        self.assertEqual(report.update_text(old, "new\n"), f"before\n{report.BEGIN}\nnew\n{report.END}\nafter\n")
        with self.assertRaises(ValueError):
            report.update_text("no marks", "new")

    def test_the_file_to_update_is_checked_before_anything_is_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "page.md")
            settings = run.parse(["bindir", "libdir", "--out", os.path.join(folder, "out"), "--update", page])
            with self.assertRaises(OSError):
                run.check_outputs(settings)
            with open(page, "w", encoding="utf-8") as file:
                file.write("no marks")
            with self.assertRaises(ValueError):
                run.check_outputs(settings)
            with open(page, "w", encoding="utf-8") as file:
                file.write(f"before\n{report.BEGIN}\n{report.END}\n")
            run.check_outputs(settings)
            report.update_file(page, results(curve_rows()))
            with open(page, encoding="utf-8") as file:
                self.assertIn("![Bandwidth of tag messages](plots/bandwidth-tag.svg)", file.read())
            self.assertTrue(os.path.exists(os.path.join(folder, "plots", "bandwidth-tag.svg")))

    def test_machine_names_neither_paths_nor_hosts(self):
        self.assertEqual(set(run.machine()), {"processor", "architecture", "processors", "memory_gib", "kernel",
                                              "virtual", "system"})
        self.assertNotIn(os.getcwd(), report.markdown(results([], machine=run.machine())))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
