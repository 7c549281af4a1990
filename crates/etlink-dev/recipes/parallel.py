"""Runs the tests of a recipe side by side, each in a process of its own, one for each processor.

Most of a test's time is the start of PyTorch, so a suite takes half the time on two processors.
"""

import argparse
import io
import multiprocessing
import os
import sys
import time
import unittest


def run_module(module: str, arguments: list[str], longest: tuple[str, ...]) -> None:
    """Runs the tests of `module` and exits; those named in `longest` begin first, so that none of them is left alone at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-k", action="append", default=[], metavar="PART", help="only tests whose name has this part")
    parser.add_argument("-j", type=int, default=os.cpu_count(), metavar="N", help="tests at a time")
    parser.add_argument("-v", action="store_true", help="ignored: the tests are always named")
    chosen = parser.parse_args(arguments)
    names = [name for name in test_names(module) if not chosen.k or any(part in name for part in chosen.k)]
    names.sort(key=lambda name: not name.endswith(longest))
    failed, began = 0, time.monotonic()
    # forked: the options that the recipe was started with are there
    with multiprocessing.get_context("fork").Pool(chosen.j, maxtasksperchild=1) as pool:
        for name, text, is_passed, seconds in pool.imap_unordered(run_test, names):
            failed += not is_passed
            print(f"{name} ... {'ok' if is_passed else 'FAILED'} ({seconds:.1f} s)", flush=True)
            if not is_passed:
                print(text, flush=True)
    print(f"{len(names) - failed} passed, {failed} failed ({time.monotonic() - began:.0f} s)")
    sys.exit(1 if failed or not names else 0)


def test_names(module: str) -> list[str]:
    """`module.Class.test`, in the order of the classes; base classes without tests give none."""
    cases = [case for group in unittest.defaultTestLoader.loadTestsFromName(module) for case in group]
    return list(dict.fromkeys(case.id() for case in cases))


def run_test(name: str) -> tuple[str, str, bool, float]:
    stream, began = io.StringIO(), time.monotonic()
    suite = unittest.defaultTestLoader.loadTestsFromName(name)
    result = unittest.TextTestRunner(stream=stream).run(suite)
    return name, stream.getvalue(), result.wasSuccessful(), time.monotonic() - began
