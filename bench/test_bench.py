#!/usr/bin/env python3
"""Tests of dsconv-bench itself: exit status, output, what it opens, how much memory it takes.

Usage: test_bench.py BENCH MODULES, where MODULES holds the mock backends of tests/unit.
"""
import csv
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH, MODULES = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2])
SMALL = "n=2,c=5,h=9,w=7,k=6"
FIELDS = ["problem", "backend", "device", "algo", "math", "median_ms", "min_ms", "mean_ms",
          "gbytes_per_s", "gflops", "mix_share", "baseline", "baseline_ms", "speedup", "rel_l2",
          "max_abs", "pass"]


def bench(*arguments, cwd=None, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DSCONV_")}
    return subprocess.run([BENCH, *arguments], cwd=cwd, env={**environment, **variables},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


def backends():
    """Names of all known backends, each with whether it is usable."""
    lines = [line.split() for line in bench("--list").stdout.splitlines() if line[0] != " "]
    return {line[0]: line[6].rstrip(":") == "yes" for line in lines}


class Usage(unittest.TestCase):
    def refused(self, *arguments, naming):
        result = bench(*arguments)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertIn(naming, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_wrong_usage_is_told_in_one_line(self):
        self.refused("--nonsense", naming="--nonsense")
        self.refused("--mode", "fast", naming="fast")
        self.refused("--format", "xml", naming="xml")
        self.refused("--reps", "0", naming="0")
        self.refused("--reps", naming="--reps")
        self.refused("--set", "no_such_network", naming="no_such_network")
        self.refused("--file", "/no/such/file", naming="/no/such/file")
        self.refused("n=0x", naming="n=0x")
        self.refused("colour=red", naming="colour")
        self.refused(SMALL + ",h=-1", naming="-1")
        self.refused("--dtype", "f64", SMALL, naming="f64")
        self.refused("--algo", "nonsense", "--backend", "cpu", SMALL, naming="nonsense")
        self.refused("--device", "99", "--backend", "cpu", SMALL, naming="99")

    def test_problems_from_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            problems = pathlib.Path(folder, "problems")
            problems.write_text(f"# two\n  {SMALL} # the first\n\n{SMALL},k=7\t\n", encoding="utf-8")
            printed = bench("--print", "--file", str(problems))
            self.assertEqual(printed.returncode, 0, printed)
            self.assertEqual(len(printed.stdout.splitlines()), 2)
            problems.write_text("# none\n", encoding="utf-8")
            self.refused("--file", str(problems), naming="no problem")
            problems.write_text(f"{SMALL} {SMALL}\n", encoding="utf-8")
            self.refused("--file", str(problems), naming=SMALL)

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([BENCH, "--list"], stdout=full, stderr=subprocess.PIPE,
                                    text=True, check=False)
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("standard output", result.stderr)

    def test_help_and_version(self):
        for option in ("--help", "--version"):
            result = bench(option)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertIn("dsconv-bench" if option == "--version" else "PROBLEM", result.stdout)

    def test_list_names_every_backend(self):
        self.assertEqual(bench("--list").returncode, 0)
        self.assertEqual(set(backends()) & {"cuda", "hip", "cpu", "ref"},
                         {"cuda", "hip", "cpu", "ref"})
        self.assertTrue(backends()["cpu"] and backends()["ref"])


class Selection(unittest.TestCase):
    def test_unknown_backend_gives_the_names(self):
        for result in (bench(SMALL, DSCONV_BACKEND="nonsense"),
                       bench("--backend", "nonsense", SMALL)):
            self.assertEqual(result.returncode, 2, result)
            for name in ("nonsense", "cuda", "hip", "cpu", "ref"):
                self.assertIn(name, result.stderr)

    def test_unusable_backend_gives_the_reason(self):
        for name in [n for n, usable in backends().items() if not usable]:
            result = bench(SMALL, DSCONV_BACKEND=name)
            self.assertEqual((result.returncode, result.stdout), (77, ""), result)
            self.assertIn(name, result.stderr)

    def test_modules_of_the_working_directory_are_not_opened(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("dsconv_cuda.so", "dsconv_hip.so", "dsconv_onednn.so", "libdsconv.so",
                         "libdnnl.so.2"):
                shutil.copy(MODULES / "mock_hostile.so", pathlib.Path(folder, name))
            listed = bench("--list", cwd=folder)
            self.assertEqual(listed.returncode, 0, listed)
            self.assertEqual(bench(SMALL, "--mode", "verify", "--backend", "cpu", "--algo",
                                   "onednn", cwd=folder).returncode,
                             bench(SMALL, "--mode", "verify", "--backend", "cpu", "--algo",
                                   "onednn").returncode)
            # The module does attack whoever opens it.
            opened = bench("--list", cwd=folder, DSCONV_BACKEND_DIR=folder)
            self.assertEqual(opened.returncode, 86, opened)


class Module(unittest.TestCase):
    """With the mock as backend `cuda`, whose memory the host cannot reach."""

    def run_mock(self, module):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(MODULES / module, pathlib.Path(folder, "dsconv_cuda.so"))
            return bench("--backend", "cuda", "--mode", "verify", SMALL, DSCONV_BACKEND_DIR=folder)

    def test_right_results_pass(self):
        result = self.run_mock("mock_cuda.so")
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("pass", result.stdout)

    def test_wrong_results_are_out_of_bounds(self):
        result = self.run_mock("mock_cuda_wrong.so")
        self.assertEqual(result.returncode, 1, result)
        self.assertIn("FAIL", result.stdout)

    def test_no_driver(self):
        result = self.run_mock("mock_cuda_no_driver.so")
        self.assertEqual(result.returncode, 77, result)
        self.assertIn("driver", result.stderr)


class Output(unittest.TestCase):
    def test_json_has_every_field(self):
        result = bench("--backend", "cpu", "--reps", "1", "--format", "json", "--baseline", SMALL,
                       SMALL + ",layout=nhwc,dtype=bf16")
        self.assertEqual(result.returncode, 0, result)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertEqual([f for f in FIELDS if f not in line], [])
            self.assertIs(line["pass"], True)
            self.assertGreater(line["median_ms"], 0)
            self.assertLessEqual(line["min_ms"], line["median_ms"])
            self.assertGreater(line["mix_share"], 0)
            if line["baselines"]:
                best = min(b["median_ms"] for b in line["baselines"] if b["comparable"])
                self.assertAlmostEqual(line["baseline_ms"], best)
                self.assertAlmostEqual(line["speedup"], best / line["median_ms"])
        self.assertIn("layout=nhwc", lines[1]["problem"])

    def test_pass_is_unknown_where_nothing_was_verified(self):
        result = bench("--backend", "cpu", "--reps", "1", "--format", "json", "--mode", "time", SMALL)
        self.assertIsNone(json.loads(result.stdout)["pass"])

    def test_csv_agrees_with_its_header(self):
        result = bench("--backend", "ref", "--mode", "verify", "--format", "csv", SMALL, SMALL)
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        self.assertEqual([row["pass"] for row in rows], ["true", "true"])
        self.assertTrue(all(None not in row and None not in row.values() for row in rows))
        self.assertEqual([f for f in FIELDS if f not in rows[0]], [])

    def test_all_backends(self):
        result = bench("--backend", "all", "--mode", "verify", "--format", "json", SMALL)
        self.assertEqual(result.returncode, 0, result)
        used = {json.loads(line)["backend"] for line in result.stdout.splitlines()}
        self.assertEqual(used, {name for name, usable in backends().items() if usable})

    def test_sets_leave_out_what_is_no_plain_activation(self):
        result = bench("--print", "--set", "mobilenet_v3", "--batch", "1", "--layout", "nhwc")
        self.assertIn("hardswish+se", result.stderr)
        self.assertNotIn("+se", result.stdout)
        for line in result.stdout.splitlines():
            self.assertTrue(line.split("\t")[2].startswith("n=1,"), line)
            self.assertIn("layout=nhwc", line)

    def test_problem_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"# comment\n\n{SMALL}  # more\nkernelbench86,n=1\n")
            file.flush()
            lines = bench("--print", "--file", file.name).stdout.splitlines()
        self.assertEqual(len(lines), 2)
        self.assertIn("n=1,c=64,h=512,w=512,k=128", lines[1])

    def test_empty_batch(self):
        result = bench("--backend", "cpu", SMALL + ",n=0")
        self.assertEqual(result.returncode, 0, result)

    @unittest.skipUnless(shutil.which("gnuplot"), "needs gnuplot")
    def test_plot(self):
        with tempfile.TemporaryDirectory() as folder:
            plot = pathlib.Path(folder, "it's.svg")
            result = bench("--backend", "cpu", "--mode", "time", "--reps", "1", "--plot", str(plot),
                           SMALL)
            self.assertEqual(result.returncode, 0, result)
            self.assertIn("<svg", plot.read_text(encoding="utf-8"))

    def test_plot_is_refused_before_the_work(self):
        for arguments, naming in ((["--plot", "/no/such/folder/x.svg"], "/no/such/folder/x.svg"),
                                  (["--plot", "x.svg", "--mode", "verify"], "--mode")):
            result = bench("--backend", "cpu", *arguments, SMALL)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result)
            self.assertIn(naming, result.stderr)

    def test_plot_without_gnuplot(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink("/bin/sh", pathlib.Path(folder, "sh"))
            result = bench("--plot", "x.svg", SMALL, PATH=folder)
        self.assertEqual(result.returncode, 2, result)
        self.assertIn("gnuplot", result.stderr)


class Memory(unittest.TestCase):
    @unittest.skipIf("SANITIZED" in os.environ, "sanitizers take memory of their own")
    def test_fused_needs_its_tensors_and_little_more(self):
        for layout in ("nchw", "nhwc"):
            result = bench("--backend", "cpu", "--algo", "fused", "--format", "json", "--mode",
                           "verify", f"n=2,c=64,h=512,w=512,k=128,layout={layout}")
            self.assertEqual(result.returncode, 0, result)
            line = json.loads(result.stdout)
            tensors = 4 * (2 * 64 * 512 * 512 + 2 * 128 * 512 * 512 + 64 * 9 + 64 * 128)
            self.assertLessEqual(line["peak_memory_bytes"], tensors + (16 << 20))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
