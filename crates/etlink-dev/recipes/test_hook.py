"""Parts of the hook that need no PyTorch: waits of threads in device traces of all forms, and secrets of command lines.

    python3 crates/etlink-dev/recipes/test_hook.py

Started by `cargo dev test-torch` with the others (suites.py).
"""

import fcntl
import importlib
import json
import os
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

PACKAGE = Path(__file__).resolve().parents[2] / "etlink-torch" / "python"
WINDOW_END = '  {\n    "name": "Record Window End", "ph": "i", "s": "g",\n    "pid": "", "tid": "", "ts": 2.0\n  }'
HEAD = '{\n  "schemaVersion": 1,\n  "traceEvents": [\n' + WINDOW_END
TAIL = '  "traceName": "x.json",\n  "displayTimeUnit": "ms",\n  "baseTimeNanoseconds": 4000\n}\n'
LOGGED = "ERROR:2026-01-01 00:00:00 1:1 DeviceProperties.cpp:47] gpuGetDeviceCount failed with code 35"
OF_AN_EVENT = json.dumps('{"ph": "X"}], "traceName": ')
"""A text in which a trace seems to end."""


def module(name: str) -> types.ModuleType:
    """A module of the hook; the source tree stays as it is."""
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, str(PACKAGE))
    try:
        return importlib.import_module("etlink_torch." + name)
    finally:
        sys.path.remove(str(PACKAGE))
        sys.dont_write_bytecode = written


def logs(kind: str, *messages: str) -> str:
    return f'  "{kind}": [{", ".join(map(json.dumps, messages))}],\n'


class Waits:
    """One wait, from 5 to 7 µs."""

    given = taken = ()

    def take_rows(self):
        return [("queue.get", 7, 5000, 7000)]


class Ends(unittest.TestCase):
    """The waits are the last events, whatever Kineto writes behind the events."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "trace.json"
        self.wait_events = module("wait_events")

    def added(self, text: str) -> str:
        """The text of a trace with the wait."""
        self.path.write_text(text)
        self.wait_events.add(str(self.path), Waits(), None, 4000, 9000)
        return self.path.read_text()

    def assert_added(self, text: str):
        wanted, found = json.loads(text), json.loads(self.added(text))
        *events, wait = found.pop("traceEvents")
        self.assertEqual((events, found), (wanted.pop("traceEvents"), wanted))
        wanted = {"ph": "X", "cat": "etlink_wait", "name": "queue.get", "pid": os.getpid(), "tid": 7, "ts": 1.0, "dur": 2.0, "args": {}}
        self.assertEqual(wait, wanted)

    def test_nothing_is_between_the_events_and_the_name(self):
        self.assert_added(HEAD + "\n  ],\n" + TAIL)

    def test_what_kineto_logged_is_between(self):
        self.assert_added(HEAD + "\n  ],\n" + logs("ERROR", LOGGED) + logs("INFO", "[a]", "b: {}]") + logs("WARNING") + TAIL)

    def test_logs_seem_to_end_the_events(self):
        for message in (OF_AN_EVENT, '],\n"traceName": 1', "}]", "\\\"}]", '", "traceName": [{"ph": 1}], "a": "'):
            with self.subTest(message):
                self.assert_added(HEAD + "\n  ],\n" + logs("ERROR", message, message) + TAIL)

    def test_logs_are_long(self):
        self.assert_added(HEAD + "\n  ],\n" + logs("ERROR", *[f"{number}: {LOGGED}" for number in range(30_000)]) + TAIL)

    def test_logs_have_quotes_that_are_not_escaped(self):
        """Kineto writes its messages as they are, which is no JSON any more."""
        broken = '  "INFO": ["skipping "step" call", "a}], b"],\n'
        found = self.added(HEAD + "\n  ],\n" + broken + TAIL)
        self.assertIn(broken + TAIL, found)
        *_, wait = json.loads(found.replace(broken, ""))["traceEvents"]
        self.assertEqual(wait["name"], "queue.get")

    def test_events_are_anywhere_among_the_members(self):
        devices = '  "deviceProperties": [{"id": 0, "name": "a", "limits": [{"x": 1}]}]'
        last = '{"ph": "X", "name": "}],", "ts": 1, "dur": 1, "args": {"a": [{"ph": 1}], "b": {"c": {}}}}'
        base = '"baseTimeNanoseconds": 4000'
        for text in (
            f'{{"traceEvents": [{last}]}}'.replace("{", "{" + base + ", ", 1),
            f'{{{base}, {devices}, "traceEvents": [{last}]}}',
            f'{{"traceEvents":[{last}] , {devices}, "nested": {{"a": [[{{}}]]}}, {base}}}',
            f'{{"traceName": "x", "traceEvents": [\n{last}\n],\n{devices},\n"INFO": [], {base}\n}}\n',
        ):
            with self.subTest(text):
                self.assert_added(text)

    def test_no_event_is_there(self):
        for text in ('{"traceName": "x"}', HEAD[:-20], HEAD + "\n  ]", '{"a": [{"b": 1}], "traceName": "x"}'):
            with self.subTest(text), self.assertRaisesRegex(ValueError, f"last {len(text)} bytes"):
                self.added(text)
            self.assertEqual(self.path.read_text(), text)

    def test_a_disk_is_full(self):
        text = HEAD + "\n  ],\n" + logs("ERROR", LOGGED) + TAIL
        replace, failures = self.wait_events.replace_end, [OSError(28, "no space")]

        def fail_once(file, place, tail):
            replace(file, place, tail[:9])
            if failures:
                raise failures.pop()
            replace(file, place, tail)

        with mock.patch.object(self.wait_events, "replace_end", fail_once), self.assertRaises(OSError):
            self.added(text)
        self.assertEqual(self.path.read_text(), text)


class Masking(unittest.TestCase):
    def test_secrets_of_command_lines_are_masked_as_by_the_command(self):
        cases = json.loads((PACKAGE.parent / "src/masking/cases.json").read_text())
        masked_command = module("masking").masked_command
        for words, masked in cases:
            self.assertEqual(masked_command(words), masked)


class HookFolder(unittest.TestCase):
    """The command writes `ended` and looks at the lock of the processes; whoever comes last removes the folder."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        source = (PACKAGE / "sitecustomize.py").read_text()
        self.hook = types.ModuleType("hook")
        self.hook.__file__ = str(self.folder / "sitecustomize.py")
        with mock.patch.dict(os.environ):
            os.environ.pop("ETLINK_RECORD", None)
            exec(compile(source, self.hook.__file__, "exec"), vars(self.hook))
        self.lock = os.open(self.folder / "python", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self.lock, fcntl.LOCK_SH)

    def command_ends(self) -> bool:
        """Whether no process holds the lock: then the command removes the folder."""
        (self.folder / "ended").touch()
        with open(self.folder / "python") as alone:
            try:
                fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                return False
        return True

    def process_ends(self):
        self.hook.remove_folder(self.lock, os.fstat(self.lock), os.getpid())

    def test_the_command_ends_first(self):
        self.assertFalse(self.command_ends())
        self.process_ends()
        self.assertFalse(self.folder.exists())

    def test_the_process_ends_first(self):
        self.process_ends()
        self.assertTrue(self.command_ends())

    def test_the_command_ends_while_the_process_looks_for_its_word(self):
        exists, seen = os.path.exists, []

        def looks(path):
            found = exists(path)
            seen.append(self.command_ends())
            return found

        with mock.patch.object(os.path, "exists", looks):
            self.process_ends()
        self.assertTrue(seen == [True] or not self.folder.exists(), seen)


class Plans(unittest.TestCase):
    """A rank plans a request that it has read; another command may have withdrawn it since."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        watch = module("watch")
        self.watcher = object.__new__(watch.Watcher)
        self.watcher.report = types.SimpleNamespace(folder=folder.name, path=lambda ending: f"{folder.name}/own.{ending}")
        self.watcher.session = types.SimpleNamespace(armed={"warmup": 0, "steps": 1})
        self.watcher.request = {"id": "a", "by": "etlink trigger"}

    def plans(self, asked: str | None) -> bool:
        """Whether there is a plan for request `a` after this rank has published it."""
        if asked is not None:
            (self.folder / "trigger.json").write_text(json.dumps({"id": asked, "by": "etlink trigger"}))
        self.watcher.publish_plan({"id": "a", "first": 9})
        return (self.folder / "plan.json").exists()

    def test_a_request_that_is_there_is_planned(self):
        self.assertTrue(self.plans("a"))

    def test_a_request_that_is_gone_has_no_plan(self):
        self.assertFalse(self.plans(None))

    def test_a_request_that_another_has_replaced_has_no_plan(self):
        self.assertFalse(self.plans("b"))


LONGEST = ()

if __name__ == "__main__":
    unittest.main()
