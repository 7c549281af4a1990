"""`from etlink_torch import profile` in place of torch.profiler's: all that is the script's stays, and both traces are there.

    python3 crates/etlink-dev/recipes/test_profile.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch` with the others (suites.py).
"""

import json
import subprocess
from pathlib import Path

import test_torch
from catalog import version_key
from test_torch import CHOSEN, MODIFIED, PACKAGE, PROGRAMS, Traces, environment, host_ops, load


class DropIn(Traces):
    """Scripts that change one import."""

    def setUp(self):
        super().setUp()
        self.traces = self.folder / "etlink_traces"

    def run_script(self, script: Path | str, *words: str, code: int = 0, **more: str) -> subprocess.CompletedProcess:
        variables = environment() | {"PYTHONPATH": str(PACKAGE)} | more
        line = ["python", str(script), *words]
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def case(self, name: str, code: int = 0, **more: str) -> str:
        """Runs a case of drop_in.py; what it prints."""
        return self.run_script(MODIFIED / "drop_in.py", name, code=code, **more).stdout.strip()

    def cycles(self) -> list[dict]:
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["notes"], [])
        for cycle in rank["cycles"]:
            test_torch.OwnProfilers.assert_linked(self, [cycle])
        return rank["cycles"]

    def steps(self) -> list[tuple[int, int]]:
        return [(cycle["first_step"], cycle["last_step"]) for cycle in self.cycles()]

    def test_programs_with_a_changed_import(self):
        text = (PROGRAMS / "own_profilers.py").read_text()
        changed = self.folder / "changed.py"
        changed.write_text(text.replace("from torch.profiler import", "from etlink_torch import"))
        # PyTorch has the argument from 2.3 on
        for name in ("observed", "two") if version_key(CHOSEN.torch) >= (2, 3) else ("plain", "two"):
            with self.subTest(name):
                found = []
                for script, folder in ((PROGRAMS / "own_profilers.py", "theirs"), (changed, "ours")):
                    place = self.folder / name / folder
                    place.mkdir(parents=True)
                    self.traces = place / "etlink_traces"
                    variables = environment() | {"PYTHONPATH": str(PACKAGE)}
                    line = ["python", str(script), name]
                    ran = subprocess.run(line, cwd=place, env=variables, capture_output=True, text=True, check=True)
                    found.append((ran.stdout, test_torch.OwnProfilers.files(self, place)))
                self.assertEqual(found[0], found[1])
                recorded = [(cycle["first_step"], cycle["last_step"], cycle["whole"]) for cycle in self.cycles()]
                self.assertEqual(recorded, test_torch.OwnProfilers.CASES[name])
                self.assertFalse([path for path in self.traces.iterdir() if path.name.startswith(".")])

    def test_it_is_a_profiler_of_pytorch(self):
        self.assertEqual(self.case("kinds"), "True True True False")

    def test_several_handlers_each_export(self):
        counts = json.loads(self.case("handlers"))
        self.assertEqual(counts[0], counts[1])
        self.assertGreater(counts[0], 20)
        self.assertEqual(self.steps(), [(1, 2)])

    def test_a_handler_that_raises_reaches_the_script(self):
        """In `step()`, and at the end of the block."""
        # PyTorch 2.1 stops twice then
        first = "mine 1" if version_key(CHOSEN.torch) >= (2, 3) else "Can't disable Kineto profiler when it's not running"
        self.assertEqual(self.case("raises"), f"{first}, mine 2")
        self.assertEqual(self.steps(), [(0, 0), (0, 0)])

    def test_steps_are_any_callable_and_start_and_stop_need_no_block(self):
        self.case("callable")
        self.assertEqual(self.steps(), [(1, 1), (4, 5), (0, 0)])

    def test_what_is_not_collected_is_in_neither_trace(self):
        self.needs((2, 6), "toggle_collection_dynamic")
        self.case("toggle")
        (cycle,) = self.cycles()
        names = list(host_ops(self.traces / cycle["host_trace"]).values())
        self.assertEqual([name for name in names if name in ("before", "hidden", "after")], ["before", "after"])

    def test_what_is_added_to_a_trace_which_is_there_once_the_script_has_exported_it(self):
        files = ["etlink.json", "kineto_trace_0.json", "torch_et_0.json"]
        self.needs((2, 6), "custom_trace_id_callback")
        self.assertEqual(self.case("metadata"), f"['mine', [1], {{'preset': 2}}, 'id 1'] {files} []")
        device = load(self.traces / self.cycles()[0]["device_trace"])
        self.assertEqual([device[key] for key in ("text", "json", "early", "trace_id")], ["mine", [1], {"preset": 2}, "id 1"])

    def test_folders(self):
        """The default folder is replaced, one that was named is not, unless that is asked for."""
        for _ in range(2):
            self.case("plain")
            self.assertEqual(self.steps(), [(0, 0)])
        self.case("named")
        self.assertIn("named/torch_et_0.json.gz already exists; ", self.case("named_again"))
        self.traces = self.folder / "named"
        self.assertEqual(self.steps(), [(0, 0), (0, 0)])
        self.assertEqual(sorted(path.name for path in self.traces.iterdir()), [
            "cycle_1", "etlink.json", "kineto_trace_0.json.gz", "torch_et_0.json.gz",
        ])

    def test_many_folders_leave_nothing_open(self):
        self.assertEqual(self.case("many"), "40 True True")

    def test_forked_ranks_that_end_with_os_exit(self):
        self.case("forked")
        ranks = self.manifest()["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        for rank in ranks:
            self.assertEqual((rank["notes"], len(rank["cycles"])), ([], 1))
            kinds = ("host_trace", "device_trace", "flight_recorder")
            # of Gloo's collectives older ones record none
            for kind in kinds if version_key(CHOSEN.torch) >= (2, 15) else kinds[:2]:
                self.assertTrue((self.traces / rank["cycles"][0][kind]).exists())
        self.assertNotIn(".etlink", [path.name for path in self.traces.iterdir()])

    def test_a_folder_that_cannot_be_made(self):
        """The script goes on, with its own table."""
        self.traces.write_text("a file")
        printed = self.case("notes")
        self.assertIn("NotADirectoryError", printed)
        self.assertTrue(printed.endswith("table True"), printed)

    def test_arguments_of_both(self):
        printed = self.case("wrong")
        for message in (
            "TypeError: profile() takes wait only with its own schedule, and schedule only with one of torch.profiler",
            "got an unexpected keyword argument 'with_stacks'",
            "ValueError: invalid literal for int()",
        ):
            self.assertIn(message, printed)
        self.assertFalse(self.traces.exists())

    def test_under_the_command_the_command_records(self):
        self.python_path = str(PACKAGE)
        self.traces = self.folder / "traces"
        self.record("", f"python {MODIFIED}/drop_in.py callable")
        self.assertEqual(self.steps(), [(1, 1), (4, 5), (0, 0)])
        self.assertFalse((self.folder / "etlink_traces").exists())

    LOOP = """
import os, resource, sys, time
import torch
from etlink_torch import profile

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
opened, limit = [], resource.getrlimit(resource.RLIMIT_NOFILE)
with profile("traces", wait=4, warmup=1, active=2) as prof:
    for step in range(10):
        model(torch.ones(4, 8)).sum().backward()
        optimizer.step()
        if step == 6 and sys.argv[1] == "waits":
            time.sleep(5)
        if step == 6 and sys.argv[1] == "opens":
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, limit[1]))
            while len(opened) < 100:
                try:
                    opened.append(os.open(os.devnull, os.O_RDONLY))
                except OSError:
                    break
        prof.step()
        while opened:
            os.close(opened.pop())
"""

    def loop(self, what: str) -> dict:
        script = self.folder / "loop.py"
        script.write_text(self.LOOP)
        self.run_script(script, what)
        self.traces = self.folder / "traces"
        (rank,) = self.manifest()["ranks"]
        return rank

    def test_a_recorded_step_that_waits_is_no_cost_of_the_recording(self):
        times = self.loop("waits")["step_times"]
        self.assertEqual(times["recorded_steps"], 2)
        # the mean of both is more than half of the wait
        self.assertLess(times["recorded_ns"], 2e9)

    MANY_CYCLES = """
import glob, queue, sys, torch
from etlink_torch import profile, waits
waits.MOST_STARTS = 2
items = queue.Queue()
with profile(sys.argv[1], wait=0, warmup=0, active=1, repeat=4) as prof:
    for _ in range(5):
        items.put(torch.ones(2).sum())
        items.get()
        prof.step()
print(["etlink_wait" in open(path).read() for path in sorted(glob.glob(sys.argv[1] + "/**/kineto_trace_0.json", recursive=True))])
print(prof.notes)
"""

    def test_waits_are_recorded_in_so_many_cycles_as_python_forgives(self):
        ran = self.run_script("-c", self.MANY_CYCLES, str(self.folder / "traces"))
        found, notes = ran.stdout.splitlines()
        # cycle_1, cycle_2 and cycle_3 come before the first, which is in no folder of its own
        self.assertEqual(found, "[True, False, False, True]")
        self.assertRegex(notes, r"\A\['thread waits are recorded only in the first 2 cycles: [^']*'\]\Z")

    def test_too_many_open_files_are_not_said_to_be_a_full_disk(self):
        rank = self.loop("opens")
        (note,) = rank["notes"]
        self.assertIn("a trace of this cycle is incomplete", note)
        self.assertIn("too many files open; raise the limit (`ulimit -n`)", note)
        self.assertEqual(rank["cycles"], [])

    def test_without_torch(self):
        script = self.folder / "no_torch.py"
        script.write_text(
            "import sys\n"
            "sys.modules['torch'] = None\n"
            "from etlink_torch import profile\n"
            "with profile('traces', wait=1, active=1) as prof:\n"
            "    prof.step()\n"
            "print(prof.notes)\n"
            "from etlink_torch import schedule\n"
        )
        ran = self.run_script(script, code=1)
        self.assertIn("import of torch halted", ran.stdout)
        self.assertIn("ModuleNotFoundError: ", ran.stderr)


LONGEST = ("test_programs_with_a_changed_import",)

if __name__ == "__main__":
    test_torch.main(LONGEST)
