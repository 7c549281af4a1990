"""Runs the tests of recipes side by side, each in a process of its own, one for each processor.

Most of a test's time is the start of PyTorch, so a suite takes half the time on two processors.
"""

import argparse
import collections
import io
import multiprocessing
import os
import resource
import sys
import time
import typing
import unittest

BEGAN = time.monotonic()


def run_modules(modules: tuple[str, ...], arguments: list[str], longest: tuple[str, ...]) -> collections.Counter:
    """Runs the tests of the modules, and returns how many had each outcome; those named in `longest` begin first, so that none of them is left alone at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", action="append", default=[], metavar="PART", help="only tests whose name has this part")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="tests at a time")
    parser.add_argument("-v", action="store_true", help="ignored: the tests are always named")
    chosen = parser.parse_args(arguments)
    names = [name for module in modules for name in test_names(module)]
    names = [name for name in names if not chosen.k or any(part in name for part in chosen.k)]
    names.sort(key=lambda name: not name.endswith(longest))
    counts, processor_s = collections.Counter(), collections.Counter()
    # forked: the options that the recipe was started with are there
    with multiprocessing.get_context("fork").Pool(chosen.j, maxtasksperchild=1) as pool:
        for ran in pool.imap_unordered(run_test, names):
            counts[ran.outcome] += 1
            processor_s[ran.name.rpartition(".")[0]] += ran.processor_s
            shown = {"passed": "ok", "failed": "FAILED"}.get(ran.outcome, ran.outcome)
            print(f"{ran.name} ... {shown} ({ran.seconds:.1f} s, {ran.processor_s:.1f} s of processor time)", flush=True)
            if ran.outcome != "passed":
                print(ran.text, flush=True)
    for name, seconds in processor_s.most_common():
        print(f"{seconds:7.1f} s of processor time: {name}")
    return counts


def end(counts: collections.Counter) -> None:
    """Prints how many tests passed and what all of this took, and exits."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor_s = sum(one.ru_utime + one.ru_stime for one in spent)
    skipped = f", {counts['skipped']} skipped" if counts["skipped"] else ""
    print(f"{counts['passed']} passed, {counts['failed']} failed{skipped} ({time.monotonic() - BEGAN:.0f} s, {processor_s:.0f} s of processor time)")
    sys.exit(1 if counts["failed"] or not counts["passed"] else 0)


def test_names(module: str) -> list[str]:
    """`module.Class.test`, in the order of the classes; base classes without tests give none."""
    cases = [case for group in unittest.defaultTestLoader.loadTestsFromName(module) for case in group]
    return list(dict.fromkeys(case.id() for case in cases))


class TestRun(typing.NamedTuple):
    name: str
    outcome: str
    text: str
    seconds: float
    processor_s: float


def run_test(name: str) -> TestRun:
    stream, began = io.StringIO(), time.monotonic()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(stream=stream, verbosity=2).run(suite)
    outcome = "failed" if not result.wasSuccessful() else "skipped" if result.skipped else "passed"
    # of this process, which runs one test, and of those that it has waited for
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    processor_s = sum(one.ru_utime + one.ru_stime for one in spent)
    return TestRun(name, outcome, stream.getvalue(), time.monotonic() - began, processor_s)
