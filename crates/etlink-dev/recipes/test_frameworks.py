"""Lightning and the Trainer of Hugging Face: schedules for phases, by the command and by what their trainers take.

    python3 crates/etlink-dev/recipes/test_frameworks.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch` with the others (suites.py).
"""

import re
import subprocess
from collections import defaultdict

import test_torch
from catalog import version_key
from test_torch import CHOSEN, MODIFIED, PACKAGE, Traces, environment, host_ops, with_frameworks


@with_frameworks
class Frameworks(Traces):
    def run_script(self, script: str, *words: str, code: int = 0) -> subprocess.CompletedProcess:
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = ["python", str(MODIFIED / script), *words]
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def assert_phases(self, wanted: dict[str, list[tuple[int, int]]]):
        """Each cycle has exactly the steps of its phase, and every operator of them in both traces."""
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["notes"], [])
        found = defaultdict(list)
        for cycle in rank["cycles"]:
            first, last = cycle["first_step"], cycle["last_step"]
            found[cycle["phase"]].append((first, last))
            self.assertTrue(cycle["whole"])
            self.assert_pair(cycle)
            names = host_ops(self.traces / cycle["host_trace"]).values()
            batches = [name for name in names if re.fullmatch(r"(train|sanity|validate|test|predict) \d+", name)]
            if batches:
                self.assertEqual(batches, [f"{cycle['phase']} {step}" for step in range(first, last + 1)])
        self.assertEqual(found, wanted)
        self.assertFalse([path for path in self.traces.iterdir() if path.name.startswith(".")])


class Lightning(Frameworks):
    PROGRAM = "lightning_phases.py"
    SCHEDULES = {
        "train": "wait=1,warmup=1,active=4",
        "validate": "wait=1,active=3",
        # the program ends in the warmup of the second cycle
        "test": "wait=2,warmup=1,active=2,repeat=2",
        "predict": "active=1",
    }
    CYCLES = {
        # validation comes after each third batch of the training, and has three batches
        "train": [(2, 2), (3, 5)],
        "validate": [(1, 2), (3, 3)],
        "test": [(3, 4)],
        "predict": [(0, 0)],
    }

    def test_phases_by_the_command_and_by_a_profiler(self):
        options = ", ".join(f"{phase}=dict({steps})" for phase, steps in self.SCHEDULES.items())
        printed, recorded = self.run_script(self.PROGRAM, "profiler", options).stdout.splitlines()
        self.assertIn("'sanity': 2, 'test': 8, 'train': 16, 'validate': 12", printed)
        self.assertEqual(recorded, printed)
        self.assert_phases(self.CYCLES)
        options = "--overwrite " + " ".join(f"--phase {phase}:{steps}" for phase, steps in self.SCHEDULES.items())
        ran = self.record(options, f"python {MODIFIED / self.PROGRAM}")
        self.assertEqual(ran.stdout, printed + "\n")
        self.assertIn("recorded 1 rank, steps of phases: predict 0-0, test 3-4, train 2-5, validate 1-3 in 6 cycles", ran.stderr)
        self.assert_phases(self.CYCLES)
        self.assertEqual(self.manifest()["phases"]["validate"]["active"], 3)

    def test_a_training_that_raises_in_a_recorded_step(self):
        """Lightning ends neither the action nor the profiler then."""
        ran = self.run_script(self.PROGRAM, "profiler", "train={'wait': 1, 'warmup': 1, 'active': 5}", "raise")
        self.assertEqual(ran.stdout.splitlines()[-1], "mine False", ran.stderr)
        (rank,) = self.manifest()["ranks"]
        # validation comes after the third batch
        self.assertEqual([(c["first_step"], c["last_step"], c["whole"]) for c in rank["cycles"]], [(2, 2, True), (3, 5, False)])
        for cycle in rank["cycles"]:
            self.assert_pair(cycle)

    def test_under_the_command_the_command_decides_and_names_what_is_missing(self):
        self.python_path = str(PACKAGE)
        phases = "--phase validate:wait=1,active=1 --phase test:wait=50,active=1"
        # the words of the program are one each
        command = f"python {MODIFIED / self.PROGRAM} profiler train={{}}"
        ran = self.record(phases, command, code=1)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([(c["phase"], c["first_step"], c["last_step"]) for c in rank["cycles"]], [("validate", 1, 1)])
        self.assertIn("nothing was recorded of phase test: the program made 16 batches of it, but recording starts at step 50", ran.stderr)

    def test_programs_without_lightning(self):
        ran = self.record("--phase train:active=1", "python train.py 8", code=1)
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        self.assertIn("the program ran no Lightning batch", ran.stderr)

    def test_wrong_arguments(self):
        wanted = {
            "": "TypeError: EtlinkProfiler() has no schedule; give it one, such as train={'wait': 1, 'warmup': 1, 'active': 2}",
            "validation={}": "TypeError: EtlinkProfiler() has no option validation; the phases are train, validate, test, predict",
            "train={'active': 0}": "ValueError: active is 0, needs to be at least 1",
            "train={'steps': 2}": "TypeError: the schedule of train has no argument steps",
            "train={}, interleave=True": "ValueError: interleave does not support schedules of phases",
        }
        ran = self.run_script("lightning_arguments.py", *wanted)
        self.assertEqual((ran.stdout.splitlines(), ran.stderr), (list(wanted.values()), ""))


class HuggingFace(Frameworks):
    def test_a_callback_for_the_trainer(self):
        """An evaluation comes after step 3: what is evaluated is in no trace."""
        ran = self.run_script("hugging_face.py", "callback", "wait=1, warmup=1, active=4")
        alone, recorded = [line for line in ran.stdout.splitlines() if line.startswith("losses")]
        self.assertEqual(alone, recorded)
        self.assert_phases({"train": [(2, 3), (4, 5)]})

    def test_a_training_that_raises_in_a_recorded_step(self):
        """No callback is called then: the cycle ends with the error, which the script gets as it was raised."""
        ran = self.run_script("hugging_face.py", "callback", "wait=0, warmup=0, active=9", "raise")
        wanted = [f"Own {place} None False" for place in ("forward", "backward", "data")]
        self.assertEqual([line for line in ran.stdout.splitlines() if line.startswith("Own")], wanted, ran.stderr)
        (rank,) = self.manifest()["ranks"]
        # older versions fetch the second batch of a step within it
        last = (4, 4, True) if version_key(CHOSEN.torch) >= (2, 4) else (4, 5, False)
        self.assertEqual([(c["first_step"], c["last_step"], c["whole"]) for c in rank["cycles"]], [(0, 2, False), (2, 4, False), last])
        for cycle in rank["cycles"]:
            self.assert_pair(cycle)


LONGEST = ("test_phases_by_the_command_and_by_a_profiler",)
LIBRARIES = ("transformers", "accelerate", "lightning")

if __name__ == "__main__":
    test_torch.main(LONGEST, LIBRARIES)
