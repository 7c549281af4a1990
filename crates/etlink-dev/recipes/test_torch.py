"""`etlink record` with real PyTorch: programs of `unmodified/` as they are, what is recorded, and that it links.

    python3 crates/etlink-dev/recipes/test_torch.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch` with the others (suites.py). The environment is that of record.py, under target/testdata-venvs.
"""

import argparse
import contextlib
import gzip
import itertools
import json
import re
import runpy
import shutil
import socket
import subprocess
import tempfile
import types
import unittest
from collections import Counter
from pathlib import Path

import parallel
import venvs
from catalog import NEWEST, has_record_function_id, version_key
from warm_python import FRAMEWORKS_USED, WarmPython

PROGRAMS = Path(__file__).resolve().parent / "unmodified"
MODIFIED = PROGRAMS.parent / "modified"
PACKAGE = PROGRAMS.parents[2] / "etlink-torch" / "python"
GPU = PROGRAMS.parents[3] / "testdata" / "gpu"
SCHEDULE = "--wait 2 --warmup 1 --active 2"
INIT = "## process_group:init ##"
CHOSEN = argparse.Namespace(warm=[], servers={})


def load(path: Path) -> dict:
    opened = gzip.open(path) if path.suffix == ".gz" else open(path)
    with opened as file:
        return json.load(file)


def identity(node: dict) -> int:
    """The `rf_id` of a node, which the oldest schema has beside its name and the others among its attributes."""
    attributes = {attribute["name"]: attribute["value"] for attribute in node.get("attrs", [])}
    return node.get("rf_id", attributes.get("rf_id", 0))


def host_ops(path: Path) -> dict[int, str]:
    """The operators of a host trace by `rf_id`; the node of the process groups is none."""
    nodes = load(path)["nodes"]
    return {identity(node): node["name"] for node in nodes if identity(node) > 0 and node["name"] != INIT}


def device_ops(path: Path) -> list[tuple[int | None, str]]:
    """The operators of a device trace with their ids, which PyTorch writes from 2.4 on."""
    events = [event for event in load(path)["traceEvents"] if event.get("cat") in ("cpu_op", "user_annotation")]
    return [(event["args"].get("Record function id"), event["name"]) for event in events]


def without_profiler_lines(text: str) -> str:
    """What a program says beside the lines that PyTorch's profiler writes for each cycle."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not re.match(r"USDT:|ERROR:.*gpuGetDeviceCount|\[W.*Execution Trace Observer", line))


def fresh(test):
    """A test, or a class of them, whose programs run in interpreters of their own, which import PyTorch themselves."""
    test.kind = "fresh"
    return test


def with_frameworks(test):
    """A test, or a class of them, whose programs import Lightning or libraries of Hugging Face."""
    test.kind = "frameworks"
    return test


def environment() -> dict[str, str]:
    """Variables of the programs of a test; `python` and `torchrun` are those of warm_python.py unless it is a fresh one."""
    return venvs.environment(CHOSEN.python, *CHOSEN.warm)


class Traces(unittest.TestCase):
    def setUp(self):
        kind = getattr(getattr(self, self._testMethodName), "kind", None) or getattr(self, "kind", "torch")
        # each test has a process of its own
        CHOSEN.warm = CHOSEN.servers.get(kind, [])
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.traces = self.folder / "traces"
        self.python_path = ""

    def record(self, options: str, command: str, code: int = 0) -> subprocess.CompletedProcess:
        """Runs `etlink record OPTIONS -o traces -- COMMAND`; words that end in .py are programs."""
        words = [str(PROGRAMS / word) if word.endswith(".py") else word for word in command.split()]
        line = [CHOSEN.etlink, "record", *options.split(), "-o", str(self.traces), "--", *words]
        variables = environment() | {"PYTHONPATH": self.python_path}
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, code, ran.stdout + without_profiler_lines(ran.stderr))
        return ran

    def needs(self, version: tuple[int, ...], what: str):
        """Skips the test with a PyTorch that is older."""
        if version_key(CHOSEN.torch) < version:
            self.skipTest(f"PyTorch {CHOSEN.torch} has no {what}")

    def manifest(self) -> dict:
        return load(self.traces / "etlink.json")

    def assert_steps(self, rank: dict, *cycles: tuple[int, int]):
        self.assertEqual([(c["first_step"], c["last_step"]) for c in rank["cycles"]], list(cycles), rank)
        for cycle in rank["cycles"]:
            self.assert_pair(cycle)

    def assert_pair(self, cycle: dict):
        """Every operator of the host trace is in the device trace, and the recorded steps are in both."""
        host, device = host_ops(self.traces / cycle["host_trace"]), device_ops(self.traces / cycle["device_trace"])
        if has_record_function_id(CHOSEN.torch):
            self.assertEqual(set(host.items()) - set(device), set())
        else:
            self.assertEqual(Counter(host.values()) - Counter(name for _, name in device), Counter())
        steps = [name for name in host.values() if name.startswith("ProfilerStep#")]
        wanted = [f"ProfilerStep#{step}" for step in range(cycle["first_step"], cycle["last_step"] + 1)]
        if version_key(CHOSEN.torch) < (2, 3):
            # a step bears the number of the one before it
            self.assertEqual(len(steps), len(wanted))
        else:
            self.assertEqual(steps, wanted)
        self.assertGreater(len(host), 10)


class Recorded(Traces):
    """`etlink record` on programs as they are."""

    @fresh
    def test_a_script_as_it_is(self):
        ran = self.record(SCHEDULE + " --link", "python train.py 8")
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["rank"], rank["steps"], rank["torch"].split("+")[0]), (0, 8, CHOSEN.torch))
        self.assert_steps(rank, (3, 4))
        check = [CHOSEN.etlink, "check", str(self.traces / "chakra")]
        self.assertEqual(subprocess.run(check, capture_output=True).returncode, 0)
        self.assertIn("recorded 1 rank, steps 3-4 (calls of SGD.step): ", ran.stderr)
        self.assertEqual([path.name for path in (self.traces / "chakra").iterdir()], ["traces.0.et"])
        self.assertEqual(sorted(path.name for path in self.traces.iterdir()), ["chakra", "etlink.json", "kineto_trace_0.json", "torch_et_0.json"])

    def merge(self, gloo: bool = False) -> list[dict]:
        """Links the recording with --strict, and gives the ranks of the report. Nothing of them is damaged.

        Of Gloo's collectives the traces have neither group nor size. Where PyTorch's flight recorder does not have them
        either, --strict ends with 1, for this alone.
        """
        cycles = [cycle for rank in self.manifest()["ranks"] for cycle in rank["cycles"]]
        gloo = gloo and any(cycle.get("flight_recorder") is None for cycle in cycles)
        merge = [CHOSEN.etlink, "merge", str(self.traces), "-o", str(self.folder / "linked"), "--json", "--strict"]
        ran = subprocess.run(merge, capture_output=True, text=True)
        self.assertEqual(ran.returncode, 1 if gloo else 0, ran.stderr)
        report = json.loads(ran.stdout)
        for run in report["runs"]:
            self.assertEqual([problem["kind"] for problem in run["problems"]], ["gloo_unrecorded"] if gloo else [])
        self.assertEqual([rank["label"] for rank in report["ranks"] if rank["refused"] or "report" not in rank], [])
        return report["ranks"]

    @fresh
    def test_two_ranks_of_torchrun_packed(self):
        ran = self.record(SCHEDULE + " --gzip --record-shapes", "torchrun --nproc-per-node 2 ddp.py 0")
        self.assertEqual(ran.stdout, "done\n")
        ranks = self.manifest()["ranks"]
        self.assertEqual([(rank["rank"], rank["world"]) for rank in ranks], [(0, 2), (1, 2)])
        for rank in ranks:
            self.assert_steps(rank, (3, 4))
        ranks = self.merge(gloo=True)
        self.assertEqual(len(ranks), 2)
        for rank in ranks:
            # every op of the host trace that was recorded in these steps
            self.assertEqual((rank["report"]["unmatched"]["host_not_in_device"], rank["report"]["unmatched"]["same_id_other_name"]), (0, 0))
            self.assertGreater(sum(rank["report"]["matched"].values()), 400)

    def test_collectives_of_gloo_have_groups_and_sizes(self):
        self.traces.mkdir()
        earlier = self.traces / "flight_recorder_5.pickle"
        # of an earlier hang, say: whose it is nobody knows, so that it stays
        own = self.traces / "nccl_trace_rank_5"
        for file in (earlier, own):
            file.write_bytes(b"earlier")
        self.record(SCHEDULE + " --repeat 2 --overwrite", "torchrun --nproc-per-node 2 ddp.py 0")
        self.assertEqual((earlier.exists(), own.exists()), (False, True))
        own.unlink()
        ranks = self.manifest()["ranks"]
        self.assertEqual(len(ranks[0]["cycles"]), 2)
        names = [cycle.get("flight_recorder") for rank in ranks for cycle in rank["cycles"]]
        if version_key(CHOSEN.torch) < (2, 15):
            # its flight recorder knows of NCCL alone
            self.assertEqual(names, [None] * 4)
            return
        places = ["", "cycle_1/"]
        self.assertEqual(names, [f"{place}flight_recorder_{rank}.pickle" for rank in range(2) for place in places])
        ranks = [CHOSEN.etlink, "ranks", str(self.traces), "--json"]
        runs = json.loads(subprocess.run(ranks, capture_output=True, check=True, text=True).stdout)["runs"]
        self.assertEqual([run["problems"] for run in runs], [[], []])
        called = [[(one["kind"], one["bytes"]) for one in run["collectives"]] for run in runs]
        # two buckets of DDP in each of two steps; the program ends in the second cycle
        step = [("all_reduce", 19240), ("all_reduce", 8448)]
        self.assertEqual(called, [step * 2, [("barrier", 0)]])

    def parallelism(self, kind: str):
        """A program is recorded that shares its model between ranks by PyTorch's own means."""
        self.needs((2, 6), "fully_shard and torch.distributed.pipelining")
        variables = environment()
        line = ["torchrun", "--standalone", "--nproc-per-node", "2", str(PROGRAMS / "parallelism.py"), kind]
        alone = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=300)
        self.assertRegex(alone.stdout, r"\A\d\.\d+\n\Z", alone.stderr)
        ran = self.record(SCHEDULE, f"torchrun --standalone --nproc-per-node 2 parallelism.py {kind}")
        self.assertEqual(ran.stdout, alone.stdout)
        ranks = self.manifest()["ranks"]
        self.assertEqual([(rank["rank"], rank["steps"]) for rank in ranks], [(0, 8), (1, 8)])
        for rank in ranks:
            self.assert_steps(rank, (3, 4))

    def test_fsdp2(self):
        self.parallelism("fsdp2")

    def test_tensor_parallel(self):
        self.parallelism("tensor")

    def test_pipeline_parallel(self):
        self.parallelism("pipeline")

    def test_a_program_that_fails_keeps_its_exit_code_and_its_traces(self):
        self.record(SCHEDULE, "torchrun --nproc-per-node 2 ddp.py 3", code=1)
        self.assertEqual(len(self.manifest()["ranks"]), 2)
        ran = self.record(SCHEDULE + " --overwrite", "python train.py 8 die 4 raise", code=1)
        self.assertIn("ZeroDivisionError", ran.stderr)
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        self.assertFalse(rank["cycles"][0]["whole"])
        self.assertIn("ended in step 4", ran.stderr)

    @fresh
    def test_ends_that_skip_what_python_does_at_exit(self):
        for how, code in (("_exit", 5), ("term", 143)):
            with self.subTest(how):
                self.record(SCHEDULE + " --overwrite", f"python train.py 8 die 4 {how}", code=code)
                self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_a_killed_program_is_told_and_what_was_whole_stays(self):
        ran = self.record("--wait 0 --warmup 1 --active 1 --repeat 0", "python train.py 8 die 5 kill", code=137)
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (1, 1), (3, 3))
        self.assertTrue(rank["lost"])
        self.assertIn("died in or after step 5", ran.stderr)

    def test_several_cycles(self):
        self.record("--wait 1 --warmup 1 --active 2 --repeat 2", "python train.py 12")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (2, 3), (6, 7))
        self.assertEqual(rank["cycles"][1]["host_trace"], "cycle_1/torch_et_0.json")
        self.record("--wait 0 --warmup 0 --active 2 --repeat 2 --overwrite", "python train.py 12")
        self.assert_steps(self.manifest()["ranks"][0], (0, 1), (2, 3))

    def test_interleaved_steps(self):
        """The host trace is of the first half of the steps, the device trace of the second, without the observer."""
        self.record("--wait 2 --warmup 1 --active 4 --interleave", "python train.py 10")
        (rank,) = self.manifest()["ranks"]
        (cycle,) = rank["cycles"]
        self.assertEqual((cycle["host_steps"], cycle["first_step"], cycle["last_step"]), ([3, 4], 5, 6))
        host = [node["name"] for node in load(self.traces / cycle["host_trace"])["nodes"]]
        device = device_ops(self.traces / cycle["device_trace"])
        self.assertEqual(len([name for name in host if name.startswith("ProfilerStep#")]), 2)
        self.assertEqual(len([name for _, name in device if name.startswith("ProfilerStep#")]), 2)
        self.assertTrue(all(not number for number, _ in device))
        (linked,) = self.merge()
        report = linked["report"]
        self.assertEqual(report["matched"], {"order": len(device)})
        self.assertIn("interleaved", [told["code"] for told in report["diagnostics"]])
        # traces that are given by name are found in the manifest beside them
        pair = ["--host", str(self.traces / cycle["host_trace"]), "--device", str(self.traces / cycle["device_trace"])]
        subprocess.run([CHOSEN.etlink, "link", *pair], capture_output=True, check=True)

    def test_interleaved_steps_of_ranks(self):
        self.record("--wait 2 --warmup 0 --active 2 --repeat 2 --interleave", "torchrun --nproc-per-node 2 ddp.py 0")
        for rank in self.manifest()["ranks"]:
            steps = [(cycle["host_steps"], cycle["first_step"], cycle["last_step"]) for cycle in rank["cycles"]]
            self.assertEqual(steps, [([2, 2], 3, 3), ([6, 6], 7, 7)])
        # of PyTorch 2.1 some ops, of other threads, are in one trace alone: 3 to 7 of 255 were seen
        least = 0.99 if has_record_function_id(CHOSEN.torch) else 0.95
        for linked in self.merge(gloo=True):
            report = linked["report"]
            self.assertGreater(report["matched"]["order"], least * report["cpu_ops"])

    def test_spawned_ranks_and_a_choice_of_ranks(self):
        self.record(SCHEDULE + " --ranks 1-3", f"python spawned.py {self.folder}/store")
        ranks = self.manifest()["ranks"]
        self.assertEqual([(rank["rank"], rank["excluded"]) for rank in ranks], [(0, True), (1, False)])
        self.assert_steps(ranks[1], (3, 4))

    def test_workers_of_a_loader_do_not_count_nor_a_second_optimizer(self):
        self.record(SCHEDULE, "python loader.py")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["steps"], 12)
        self.assert_steps(rank, (3, 4))

    def test_waits_of_threads_are_recorded_and_change_nothing(self):
        # a batch is fetched four steps before it is taken
        options = "--wait 2 --warmup 1 --active 6 --overwrite"
        plain = self.record(f"{options} --thread-waits=false", "python waiting.py")
        self.assertRegex(plain.stdout, r"\Aloss -?\d+\.\d+\n\Z")
        self.assertEqual(self.record(options, "python waiting.py").stdout, plain.stdout)
        events = load(self.traces / "kineto_trace_0.json")["traceEvents"]
        waits = [event for event in events if event.get("cat") == "etlink_wait"]
        freed = {event["args"]["frees"]: event for event in waits if "frees" in event["args"]}
        caused = Counter()
        for event in waits:
            cause = freed.get(event["args"].get("after"))
            if cause is None:
                continue
            caused[cause["name"], event["name"]] += 1
            ends = [one["ts"] + one["dur"] for one in (cause, event)]
            # three roundings to a nanosecond
            self.assertLessEqual(ends[0], ends[1] + 0.003, (cause, event))
        wanted = [
            ("queue.put", "queue.get"), ("queue.get", "queue.put"),
            ("Executor.submit", "Executor.idle"), ("Future.set_result", "Future.result"),
            ("threading.Event.set", "threading.Event.wait"), ("Lock.release", "Lock.acquire"),
            ("RLock.release", "RLock.acquire"),
            ("threading.Thread.start", "threading.Thread.run"),
            ("threading.Thread.run", "threading.Thread.join"),
            ("DataLoader.put", "DataLoader.idle"), ("DataLoader.fetched", "DataLoader.get"),
        ]
        self.assertEqual([pair for pair in wanted if not caused[pair]], [], caused)
        names = {event["name"] for event in waits}
        self.assertLessEqual({"multiprocessing.Queue.put", "multiprocessing.Queue.get"}, names)
        self.assertEqual([path.name for path in self.traces.iterdir() if path.name.startswith(".")], [])
        ran = subprocess.run([CHOSEN.etlink, "replay", self.traces, "--json"], capture_output=True, text=True)
        (replayed,) = json.loads(ran.stdout)["runs"]
        figures = replayed["figures"]
        self.assertEqual((figures["contradictions"]["edges"], figures["replay_error"]), (0, 0.0), ran.stderr)
        self.assertGreater(figures["by_edge"]["handoff"]["count"], 20)

    def waits_in(self, change: str, code: int) -> tuple[int, str]:
        """How many waits are in a trace whose text is changed as soon as PyTorch has written it, and what the command says."""
        text = (
            "import threading, torch\n"
            "export = torch.profiler.profile.export_chrome_trace\n"
            "def export_changed(self, path):\n"
            "    export(self, path)\n"
            "    text = open(path).read()\n"
            f"    open(path, 'w').write({change})\n"
            "torch.profiler.profile.export_chrome_trace = export_changed\n"
            "weight = torch.ones(9, requires_grad=True)\n"
            "optimizer = torch.optim.SGD([weight], 0.1)\n"
            "for _ in range(8):\n"
            "    thread = threading.Thread(target=lambda: weight.sum().backward())\n"
            "    thread.start(), thread.join()\n"
            "    optimizer.step()\n"
        )
        program = self.folder / "changes.py"
        program.write_text(text)
        ran = self.record(SCHEDULE + " --overwrite", f"python {program}", code)
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        events = load(self.traces / "kineto_trace_0.json")["traceEvents"]
        return len([event for event in events if event.get("cat") == "etlink_wait"]), ran.stderr

    def test_a_folder_may_have_any_legal_name(self):
        self.traces = self.folder / "a\\b\nc"
        self.record(SCHEDULE, "python train.py 7")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        self.assertGreater(len(load(self.traces / "kineto_trace_0.json")["traceEvents"]), 100)

    def test_waits_are_written_behind_whatever_kineto_logged_and_missed_if_they_cannot_be(self):
        logged = """text.replace('"traceName"', '"ERROR": ["a]", "}], b"],\\n"traceName"')"""
        found, _ = self.waits_in(logged, 0)
        self.assertGreater(found, 3)
        # an event that has no phase is none
        found, said = self.waits_in("""text.replace('"ph": "i"', '"phase": "i"')""", 1)
        self.assertEqual(found, 0)
        self.assertIn("thread waits are missing from the trace: ValueError: no event found in the last", said)
        (cycle,) = self.manifest()["ranks"][0]["cycles"]
        self.assertEqual((cycle["lost"], cycle["whole"]), (["thread_waits"], True))

    def test_workers_of_forked_ranks(self):
        """Each rank has what its own worker fetched, though that was forked before it was known to be a rank."""
        self.record("--wait 1 --warmup 1 --active 4", f"python forked_loaders.py {self.folder}/store")
        ranks = self.manifest()["ranks"]
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1])
        workers = set()
        for rank in ranks:
            self.assert_steps(rank, (2, 5))
            events = load(self.traces / rank["cycles"][0]["device_trace"])["traceEvents"]
            found = [event["tid"] for event in events if event.get("name") == "etlink::DataLoader.fetch"]
            self.assertTrue(found)
            workers.add(*set(found))
        self.assertEqual(len(workers), 2)
        self.assertEqual([path.name for path in self.traces.iterdir() if path.name.startswith(".")], [])

    def test_helpers_are_no_ranks(self):
        self.record("--wait 0 --warmup 1 --active 2", "python helper.py")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["rank"], rank["steps"]), (0, 8))
        self.assert_steps(rank, (1, 2))
        self.record("--wait 0 --warmup 0 --active 2 --overwrite", "python helper.py")
        self.assert_steps(self.manifest()["ranks"][0], (0, 1))

    def test_other_steps(self):
        self.record(SCHEDULE + " --step-on forward", "python inference.py")
        self.assertEqual(self.manifest()["ranks"][0]["steps"], 6)
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        for function in ("__main__:train_step", "torch.nn.functional:cross_entropy"):
            self.record(f"{SCHEDULE} --overwrite --step-on {function}", "python train.py 7")
            self.assertEqual(self.manifest()["ranks"][0]["steps"], 7)
            self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        ran = self.record(f"{SCHEDULE} --overwrite --step-on torch:no_such", "python train.py 7", code=1)
        self.assertIn("--step-on torch:no_such", ran.stderr)

    def test_ranges_are_steps(self):
        """Of an engine without an optimizer, whose ranges have numbers in their names; one is compiled, one is another's."""
        program = self.folder / "engine.py"
        program.write_text(
            "import threading, torch\n"
            "from torch.profiler import record_function\n"
            "model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())\n"
            "@torch.inference_mode()\n"
            "def execute(number):\n"
            "    with record_function(f'execute_{number}'), record_function('inner'):\n"
            "        return model(torch.ones(2, 8)).sum()\n"
            "@record_function('execute_decorated')\n"
            "def decorated():\n"
            "    return model(torch.ones(2, 8))\n"
            "for number in range(7):\n"
            "    execute(number)\n"
            "    other = threading.Thread(target=execute, args=(number,))\n"
            "    other.start(), other.join()\n"
            "decorated()\n"
            "print(float(execute(8)) >= 0)\n"
        )
        ran = self.record(SCHEDULE + " --step-on annotation:execute_*", f"python {program}")
        self.assertEqual(ran.stdout, "True\n")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["steps"], rank["counted"]), (9, "execute_*"))
        if has_record_function_id(CHOSEN.torch):
            self.assert_steps(rank, (3, 4))
        else:
            # of other threads its device trace has nothing
            self.assertEqual([(cycle["first_step"], cycle["last_step"]) for cycle in rank["cycles"]], [(3, 4)])
        self.assertIn("steps 3-4 (ranges of execute_*)", ran.stderr)
        ran = self.record(SCHEDULE + " --overwrite --step-on annotation:execute", f"python {program}", code=1)
        self.assertIn('steps are ranges of record_function("execute"); check the name in --step-on', ran.stderr)

    def forked(self, text: str) -> Path:
        """A program that forks after it has imported torch, and makes no step itself."""
        program = self.folder / "forks.py"
        program.write_text(
            "import multiprocessing, sys, torch\n"
            "from torch.profiler import record_function\n"
            "context = multiprocessing.get_context('fork')\n"
            "model = torch.nn.Linear(8, 8)\n" + text
        )
        return program

    def test_an_engine_that_is_forked(self):
        program = self.forked(
            "def engine(answers):\n"
            "    for _ in range(8):\n"
            "        with record_function('execute_model'):\n"
            "            answers.put(float(model(torch.ones(2, 8)).sum()))\n"
            "answers = context.Queue()\n"
            "process = context.Process(target=engine, args=(answers,))\n"
            "process.start()\n"
            "print(len([answers.get() for _ in range(8)]))\n"
            "process.join()\n"
            "sys.exit(process.exitcode)\n"
        )
        ran = self.record(SCHEDULE + " --step-on annotation:execute_model", f"python {program}")
        self.assertEqual(ran.stdout, "8\n")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["rank"], rank["steps"], rank["counted"]), (0, 8, "execute_model"))
        self.assert_steps(rank, (3, 4))
        # calls of any model are not: actors make them beside the rank that learns
        ran = self.record(SCHEDULE + " --overwrite --step-on forward", f"python {program}", code=1)
        self.assertIn("the steps ran in a forked process without a rank", ran.stderr)

    def test_a_training_in_a_forked_process(self):
        """It may be a helper, so that it is not recorded; the note says how it is."""
        text = (
            "import os\n"
            "def step(optimizer):\n"
            "    optimizer.zero_grad()\n"
            "    model(torch.ones(2, 8)).sum().backward()\n"
            "    optimizer.step()\n"
            "def train():\n"
            "    os.environ.update(variable.split('=') for variable in sys.argv[1:])\n"
            "    optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
            "    for _ in range(8):\n"
            "        step(optimizer)\n"
            "process = context.Process(target=train)\n"
            "process.start()\n"
            "process.join()\n"
            "sys.exit(process.exitcode)\n"
        )
        program = self.forked(text)
        ran = self.record(SCHEDULE, f"python {program}", code=1)
        note = "the steps ran in a forked process without a rank, which may be a helper; set RANK=0 in it, start it by spawn"
        self.assertIn(note, ran.stderr)
        self.assertFalse((self.traces / ".etlink").exists())
        for options, more in (("", "RANK=0"), (" --step-on __main__:step", "")):
            self.record(f"{SCHEDULE} --overwrite{options}", f"python {program} {more}")
            (rank,) = self.manifest()["ranks"]
            self.assert_steps(rank, (3, 4))
        spawned = self.folder / "spawns.py"
        lines = text.split("process = ")
        guarded = "".join(f"    {line}\n" for line in ("process = " + lines[1]).splitlines())
        head = "import multiprocessing, sys, torch\ncontext = multiprocessing.get_context('spawn')\nmodel = torch.nn.Linear(8, 8)\n"
        spawned.write_text(head + lines[0] + "if __name__ == '__main__':\n" + guarded)
        self.record(f"{SCHEDULE} --overwrite", f"python {spawned}")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))

    def test_a_helper_that_a_rank_forks_is_none(self):
        program = self.forked(
            "import os, torch.distributed as dist\n"
            "def train(steps):\n"
            "    net = torch.nn.Linear(8, 8)\n"
            "    optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
            "    for _ in range(steps):\n"
            "        net(torch.ones(2, 8)).sum().backward()\n"
            "        optimizer.step()\n"
            "if sys.argv[1:]:\n"
            "    dist.init_process_group('gloo', init_method=f'file://{sys.argv[1]}', rank=0, world_size=1)\n"
            "else:\n"
            "    os.environ['RANK'] = '0'\n"
            "helper = context.Process(target=train, args=(12,))\n"
            "helper.start()\n"
            "helper.join()\n"
            "train(8)\n"
        )
        for words in ("", f" {self.folder}/store"):
            with self.subTest(words):
                self.record(SCHEDULE + " --overwrite", f"python {program}{words}")
                (rank,) = self.manifest()["ranks"]
                self.assertEqual((rank["rank"], rank["steps"], rank["notes"]), (0, 8, []))
                self.assert_steps(rank, (3, 4))

    def test_ranks_that_are_forked(self):
        """Each forks a worker of a DataLoader, whose transform calls a model, before it makes a step."""
        program = self.forked(
            "import torch.distributed as dist\n"
            "class Data(torch.utils.data.Dataset):\n"
            "    def __len__(self):\n"
            "        return 16\n"
            "    def __getitem__(self, number):\n"
            "        return model(torch.ones(8)).detach()\n"
            "def train(rank):\n"
            "    torch.set_num_threads(1)\n"
            "    dist.init_process_group('gloo', init_method=f'file://{sys.argv[1]}', rank=rank, world_size=2)\n"
            "    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 8))\n"
            "    optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
            "    for batch in torch.utils.data.DataLoader(Data(), 2, num_workers=1):\n"
            "        net(batch).sum().backward()\n"
            "        optimizer.step()\n"
            "    dist.destroy_process_group()\n"
            "ranks = [context.Process(target=train, args=(rank,)) for rank in range(2)]\n"
            "for rank in ranks:\n"
            "    rank.start()\n"
            "for rank in ranks:\n"
            "    rank.join()\n"
            "sys.exit(max(rank.exitcode for rank in ranks))\n"
        )
        for step_on, counted in (("optimizer", "SGD"), ("forward", "Linear")):
            with self.subTest(step_on):
                options = f"{SCHEDULE} --overwrite --step-on {step_on}"
                self.record(options, f"python {program} {self.folder}/store_{step_on}")
                ranks = self.manifest()["ranks"]
                self.assertEqual([(rank["rank"], rank["world"], rank["steps"]) for rank in ranks], [(0, 2, 8), (1, 2, 8)])
                for rank in ranks:
                    self.assertEqual((rank["counted"], rank["notes"]), (counted, []))
                    self.assert_steps(rank, (3, 4))

    def test_the_manifest_has_versions_and_the_environment_without_secrets(self):
        script = self.folder / "job.sh"
        variables = "NCCL_DEBUG=WARN TORCH_LOGS_KEY=hidden SLURM_JOB_ID=7 PASSWORD=hidden CUDA_MODULE_LOADING=$(printf '\\377')"
        script.write_text(f"{variables} python {PROGRAMS}/train.py 8\n")
        self.record(SCHEDULE, f"sh {script}")
        (rank,) = self.manifest()["ranks"]
        taken = rank["environment"]
        wanted = {"NCCL_DEBUG": "WARN", "SLURM_JOB_ID": "7", "OMP_NUM_THREADS": "1", "CUDA_MODULE_LOADING": "?"}
        self.assertEqual({name: taken.get(name) for name in wanted}, wanted)
        self.assertNotIn("hidden", json.dumps(rank))
        self.assertNotIn("PATH", taken)
        self.assertEqual((rank["host"], rank["python"]), (socket.gethostname(), self.python_version()))

    def python_version(self) -> str:
        code = "import platform; print(platform.python_version())"
        return subprocess.run([CHOSEN.python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()

    def test_a_program_that_profiles_itself_is_left_alone(self):
        leave = " --own-profiler leave"
        ran = self.record("--wait 3 --warmup 1 --active 2" + leave, "python profiled.py", code=1)
        self.assertEqual(ran.stdout, "2\n")
        self.assertIn("the program uses the profiler itself", ran.stderr)
        self.record("--wait 0 --warmup 1 --active 1 --overwrite" + leave, "python profiled.py")
        self.assert_steps(self.manifest()["ranks"][0], (1, 1))
        shutil.rmtree(self.traces)
        self.record("--wait 0 --warmup 1 --active 4" + leave, "python profiled.py", code=1)
        self.assertEqual(sorted(path.name for path in self.traces.iterdir()), ["etlink.json"])

    def test_a_profiler_that_is_switched_off(self):
        program = self.folder / "disabled.py"
        program.write_text(
            "import torch\n"
            "net = torch.nn.Linear(8, 8)\n"
            "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
            "for _ in range(8):\n"
            "    with torch.autograd.profiler.profile(enabled=False):\n"
            "        net(torch.ones(2, 8)).sum().backward()\n"
            "        optimizer.step()\n"
        )
        for own_profiler in ("adopt", "leave"):
            with self.subTest(own_profiler):
                self.record(f"{SCHEDULE} --overwrite --own-profiler {own_profiler}", f"python {program}")
                self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_a_profiler_that_never_records(self):
        """Our schedule stays in force, and the ranges of its steps are in no trace of ours."""
        program = self.folder / "never.py"
        program.write_text(
            "import sys, torch\n"
            "from torch.profiler import ProfilerAction, profile\n"
            "net = torch.nn.Linear(8, 8)\n"
            "optimizer = torch.optim.SGD(net.parameters(), 0.1)\n"
            "late = ProfilerAction.RECORD_AND_SAVE if sys.argv[1:] else ProfilerAction.NONE\n"
            "with profile(schedule=lambda step: late if step == 6 else ProfilerAction.NONE) as profiler:\n"
            "    for _ in range(8):\n"
            "        net(torch.ones(2, 8)).sum().backward()\n"
            "        optimizer.step()\n"
            "        profiler.step()\n"
            "print([event.count for event in profiler.key_averages() if 'ProfilerStep' in event.key] if late.value else '')\n"
        )
        for own_profiler in ("adopt", "leave"):
            with self.subTest(own_profiler):
                options = f"{SCHEDULE} --overwrite --own-profiler {own_profiler}"
                self.record(options, f"python {program}")
                self.assert_steps(self.manifest()["ranks"][0], (3, 4))
                ran = self.record(options, f"python {program} late")
                self.assertEqual(ran.stdout, "[1]\n")
                cycles = [(3, 4), (6, 6)] if own_profiler == "adopt" else [(3, 4)]
                self.assert_steps(self.manifest()["ranks"][0], *cycles)
        # what comes first in a cycle of ours ends that
        ran = self.record("--wait 5 --warmup 0 --active 3 --overwrite", f"python {program} late")
        self.assertEqual(ran.stdout, "[1]\n")
        self.assert_steps(self.manifest()["ranks"][0], (6, 6))
        ran = self.record("--overwrite", f"python {program}", code=1)
        self.assertIn("the program's own profiler never warmed up or recorded; choose the steps with --wait", ran.stderr)

    def test_recording_that_is_never_reached(self):
        ran = self.record("--wait 10 --warmup 2 --active 2", "python train.py 7", code=1)
        self.assertIn("the program made 7 steps (calls of SGD.step), but recording starts at step 12", ran.stderr)
        ran = self.record("--wait 10 --warmup 2 --active 2 --overwrite", "python inference.py", code=1)
        self.assertIn("made no step", ran.stderr)

    def test_two_processes_with_one_rank(self):
        (self.folder / "two.sh").write_text(f"python {PROGRAMS}/train.py 8 & python {PROGRAMS}/train.py 8; wait\n")
        ran = self.record(SCHEDULE, "sh two.sh", code=1)
        self.assertIn("rank 0 is already process", ran.stderr)
        self.assertEqual(len([r for r in self.manifest()["ranks"] if r["cycles"]]), 1)

    def test_a_rank_that_is_started_again(self):
        dies = f"python {PROGRAMS}/train.py 8 die 3 kill"
        (self.folder / "again.sh").write_text(f"{dies}\npython {PROGRAMS}/train.py 8\n")
        ran = self.record(SCHEDULE, "sh again.sh")
        self.assertIn("rank 0: died in or after step 3", ran.stderr)
        first, second = sorted(self.manifest()["ranks"], key=lambda rank: rank["steps"])
        self.assertEqual((first["lost"], first["cycles"]), (True, []))
        self.assert_steps(second, (3, 4))

    def test_all_options_and_the_sitecustomize_of_others(self):
        other = self.folder / "other"
        other.mkdir()
        (other / "sitecustomize.py").write_text("print('other')\n")
        options = "--record-shapes --with-stack --profile-memory --with-flops --cuda-sync-events=false"
        self.python_path = str(other)
        ran = self.record(f"{SCHEDULE} {options}", "python train.py 8")
        self.assertEqual(ran.stdout.splitlines()[0], "other")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        device = load(self.traces / rank["cycles"][0]["device_trace"])
        self.assertEqual([device.get(key) for key in ("record_shapes", "with_stack", "profile_memory", "with_flops")], [1, 1, 1, 1])
        # PyTorch 2.15 leaves them out, silently, when it records all threads
        self.assertGreater(sum(event["name"] == "[memory]" for event in device["traceEvents"]), 20)
        self.assertNotIn("was requested", ran.stderr)
        self.assertIn("lacks allocations together with threads", ran.stderr)

    def test_activities_that_are_not_there(self):
        ran = self.record(SCHEDULE + " --activities cpu,cuda", "python train.py 8")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        self.assertIn("lacks activities of cuda here: recorded without", ran.stderr)

    def test_memory_and_graphs_where_there_is_no_cuda(self):
        ran = self.record(SCHEDULE + " --memory-snapshot --cuda-graph-nodes", "python train.py 8")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        self.assertNotIn("memory_snapshot", rank["cycles"][0])
        self.assertIn("lacks memory snapshots of this process, which does not use CUDA: recorded without it", ran.stderr)
        self.assertIn("lacks nodes of CUDA graphs (needs CUDA", ran.stderr)
        self.merge()

    def test_dependencies_of_graphs_are_kept_from_the_start(self):
        """They can be read only while a graph is made, which is mostly before the recorded steps."""
        if version_key(CHOSEN.torch) < (2, 15):
            self.skipTest(f"PyTorch {CHOSEN.torch} has no such collector")
        looks = "import torch\nfrom torch.profiler._cuspy._graph_deps import _GraphDependencyRecorder as Recorder\nprint(Recorder()._handle is not None)\n"
        (self.folder / "looks.py").write_text(looks + (PROGRAMS / "train.py").read_text())
        # its package is looked for, and used only with CUDA
        package = self.folder / "packages/cupti"
        package.mkdir(parents=True)
        for name in ("__init__.py", "cupti.py"):
            (package / name).touch()
        for option, place, wanted in (
            ("--cuda-graph-nodes", package.parent, "True"),
            ("--cuda-graph-nodes --overwrite", "", "False"),
            ("--overwrite", package.parent, "False"),
        ):
            self.python_path = str(place)
            ran = self.record(f"{SCHEDULE} {option}", f"python {self.folder / 'looks.py'} 8")
            self.assertEqual(ran.stdout.splitlines()[0], wanted)
            self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_a_cycle_without_what_was_asked_for_says_so(self):
        program = self.folder / "zeros.py"
        program.write_text(
            "import torch\n"
            "weight = torch.ones(9)\n"
            "def step():\n"
            "    for _ in range(9):\n"
            "        weight.zero_()\n"
            "for _ in range(8):\n"
            "    step()\n"
        )
        options = " --step-on __main__:step --record-shapes --profile-memory"
        ran = self.record(SCHEDULE + options, f"python {program}")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        note = "profile_memory was requested, but the device trace has no such data"
        self.assertEqual(self.manifest()["ranks"][0]["notes"], [note])
        self.assertIn(note, ran.stderr)

    def test_tensorboard_gets_the_device_traces_as_well(self):
        self.record("--wait 0 --warmup 1 --active 1 --repeat 2 --gzip --tensorboard board/run", "python train.py 8")
        self.assert_steps(self.manifest()["ranks"][0], (1, 1), (3, 3))
        names = sorted(path.name for path in (self.folder / "board/run").iterdir())
        # as the plugin looks for them: worker, span, ending
        parts = [re.fullmatch(r"(.*?)\.(\d+)\.pt\.trace\.json\.gz", name) for name in names]
        self.assertEqual(len({part[1] for part in parts}), 1, names)
        self.assertTrue(parts[0][1].endswith("_rank0"))
        for name, cycle in zip(names, ("", "cycle_1/")):
            self.assertEqual((self.folder / "board/run" / name).read_bytes(), (self.traces / f"{cycle}kineto_trace_0.json.gz").read_bytes())


class Repeated(Traces):
    """`etlink repro`: the script runs recorded ops alone."""

    def cases(self, trace: str) -> dict[str, dict]:
        """The op of each name with the least time, and its line in the script."""
        script = self.folder / "all.py"
        line = [CHOSEN.etlink, "repro", str(GPU / trace), "--top", "0", "-f", "-o", str(script)]
        subprocess.run(line, check=True, capture_output=True)
        found = {}
        for line in script.read_text().splitlines():
            if line.startswith("    json.loads("):
                case = json.loads(json.loads(line.strip()[len("json.loads(") : -len("),")]))
                # longer ones take seconds on a CPU
                if case["recorded_ns"] <= 100_000 and case["recorded_ns"] <= found.get(case["op"], (case["recorded_ns"],))[0]:
                    found[case["op"]] = (case["recorded_ns"], line)
        return found

    def repeat(self, script: str, *launcher: str) -> list[dict]:
        (self.folder / "some.py").write_text(script)
        words = [*(launcher or ["python"]), "some.py", "--iters", "3", "--warmup", "1", "--seconds", "0.1", "--json", "results.json"]
        ran = subprocess.run(words, cwd=self.folder, env=environment(), capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
        return load(self.folder / "results.json")["results"]

    def test_ops_of_gpu_recordings_run_on_the_cpu(self):
        found = {}
        for trace in ("resnet50", "llama-forward", "gpt2", "bert", "lm"):
            found = self.cases(trace) | found
        empty = re.sub(r"(?m)^    json\.loads\(.*\n", "", (self.folder / "all.py").read_text())
        lines = "\n".join(line for _, line in found.values())
        results = self.repeat(empty.replace("CASES = [\n", f"CASES = [\n{lines}\n"))
        missing = {result["op"]: result["note"] for result in results if result["repeated_ns"] is None}
        self.assertGreater(len(results), 40)
        self.assertGreaterEqual(len(results) - len(missing), len(results) * 55 // 60, missing)

    def test_bags_are_within_their_tables_and_one_tensor_is_given_twice(self):
        bag = {"op": "aten::_embedding_bag", "shapes": "[[5000, 8], [2000], [100], [], [], [], [], [], []]"}
        bag["types"] = '["float", "long int", "long int", "Scalar", "Scalar", "Scalar", "", "Scalar", "Scalar"]'
        bag["values"] = '["", "", "", "False", "0", "False", "", "False", "-1"]'
        back = {"op": "aten::_embedding_bag_dense_backward", "shapes": "[[100, 8], [2000], [2000], [100], [100], [], [], [], [], []]"}
        back["types"] = '["float", "long int", "long int", "long int", "long int", "Scalar", "Scalar", "Scalar", "", "Scalar"]'
        back["values"] = '["", "", "", "", "", "5000", "False", "0", "", "-1"]'
        twice = {"op": "aten::sub", "shapes": "[[64], [64], []]", "types": '["float", "float", "Scalar"]', "values": '["", "=0", "1"]'}
        cases = [case | {"strides": "[]", "kernel": "", "recorded_ns": 1000, "operations": None} for case in (bag, back, twice)]
        self.cases("lm")
        empty = re.sub(r"(?m)^    json\.loads\(.*\n", "", (self.folder / "all.py").read_text())
        script = empty.replace("CASES = [\n", f"CASES = [\n    *{cases!r},\n")
        same = "\ncase = Case(CASES[2], 'cpu')\ncall, make = case.call()\nargs, kwargs = make()\nassert not call(*args, **kwargs).any()\n"
        results = self.repeat(script.replace('\nif __name__ == "__main__":', same + '\nif __name__ == "__main__":'))
        self.assertEqual([result["note"] for result in results if not result["repeated_ns"]], [])

    def test_collectives_run_among_the_ranks(self):
        call = {"op": "record_param_comms", "shapes": "[[64], [], []]", "types": '["float", "", ""]', "kernel": "", "recorded_ns": 1000}
        uneven = '["all_to_allv", [3, 1], [1, 3]]'
        kinds = ["allreduce", "_allgather_base", "_reduce_scatter_base", "broadcast", "all_to_all", "barrier", "reduce"]
        values = [json.dumps([kind]) for kind in kinds] + [uneven]
        cases = [call | {"strides": "[]", "values": value, "operations": None} for value in values]
        self.cases("lm")
        empty = re.sub(r"(?m)^    json\.loads\(.*\n", "", (self.folder / "all.py").read_text())
        script = empty.replace("CASES = [\n", f"CASES = [\n    *{cases!r},\n")
        results = self.repeat(script, "torchrun", "--nproc-per-node", "2")
        self.assertEqual([result["note"] for result in results if not result["repeated_ns"]], [])
        self.assertEqual(len(results), 8)


class OwnProfilers(Traces):
    """Programs that profile themselves: both traces of exactly what they record, and all that is theirs as without us."""

    CASES = {
        # name: first and last step of each cycle, and whether each ends before the program does
        "tensorboard": [(2, 3, True), (6, 7, True)],
        "plain": [(0, 0, True)],
        "observed": [(2, 3, True), (6, 7, True)],
        "two": [(0, 1, True), (2, 3, True), (4, 4, False), (0, 0, True)],
        "unexported": [(1, 1, True), (3, 3, True), (0, 0, True)],
        "fails": [(0, 0, True)],
    }

    def files(self, folder: Path) -> dict[str, int]:
        """Names and kinds of the program's files; TensorBoard's have a time in their name."""
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and self.traces not in path.parents]
        return Counter(re.sub(r"\d{9,}", "TIME", name) for name in names)

    def alone(self, command: str) -> tuple[str, dict[str, int]]:
        """What the program prints and leaves without us."""
        folder = self.folder / "alone"
        folder.mkdir()
        words = [str(PROGRAMS / word) if word.endswith(".py") else word for word in command.split()]
        variables = environment() | {"PYTHONPATH": ""}
        ran = subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=True)
        files = self.files(folder)
        shutil.rmtree(folder)
        return ran.stdout, files

    def assert_linked(self, cycles: list[dict]):
        """Every op of the host trace is in the device trace, and the other way round."""
        for cycle in cycles:
            pair = ["--host", str(self.traces / cycle["host_trace"]), "--device", str(self.traces / cycle["device_trace"])]
            ran = subprocess.run([CHOSEN.etlink, "link", *pair, "--json"], capture_output=True, text=True, check=True)
            report = json.loads(ran.stdout)
            report = report.get("report", report)
            if has_record_function_id(CHOSEN.torch):
                self.assertEqual([count for kind, count in report["unmatched"].items() if count], [], report)
            # a step in which the program ended has nothing but its range
            self.assertGreater(sum(report["matched"].values()), 20 if cycle["whole"] else 0)

    def adopt(self, case: str):
        command = f"python own_profilers.py {case}"
        printed, files = self.alone(command)
        ran = self.record("", command)
        self.assertEqual((ran.stdout, self.files(self.folder)), (printed, files), ran.stderr)
        (rank,) = self.manifest()["ranks"]
        cycles = rank["cycles"]
        self.assertEqual([(c["first_step"], c["last_step"], c["whole"]) for c in cycles], self.CASES[case], ran.stderr)
        self.assertTrue(all(cycle["own_profiler"] for cycle in cycles))
        self.assertEqual([note for note in rank["notes"]], [])
        self.assertIn("(of the program's own profiler)", ran.stderr)
        self.assert_linked(cycles)
        self.assertFalse([path for path in self.traces.iterdir() if path.name.startswith(".")])
        return cycles

    def test_a_schedule_with_files_for_tensorboard(self):
        for cycle in self.adopt("tensorboard"):
            self.assert_pair(cycle)

    def test_no_schedule_and_an_export_at_the_end(self):
        self.adopt("plain")

    def test_an_observer_of_the_program_is_used(self):
        self.needs((2, 3), "execution_trace_observer=")
        for cycle in self.adopt("observed"):
            self.assert_pair(cycle)

    def test_two_profilers(self):
        self.adopt("two")

    def test_traces_that_the_program_does_not_export(self):
        self.adopt("unexported")

    def test_a_handler_that_raises(self):
        self.adopt("fails")

    def test_the_schedule_of_the_command_counts_for_nothing(self):
        ran = self.record("--wait 0 --warmup 1 --active 4 --gzip", "python own_profilers.py tensorboard")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([cycle["first_step"] for cycle in rank["cycles"]], [2, 6])
        self.assertIn("--wait, --warmup and --active are not used", ran.stderr)
        self.assertIn("the program started a profiler of its own: the current cycle", ran.stderr)
        self.assertTrue(rank["cycles"][0]["device_trace"].endswith(".gz"))

    def test_neither_a_schedule_nor_a_profiler(self):
        ran = self.record("", "python train.py 8", code=1)
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        self.assertIn("the program made 8 steps and created no profiler; choose the steps with --wait", ran.stderr)


class Steps(Traces):
    """What counts as a step."""

    def test_the_next_step_with_an_action(self):
        path = PACKAGE / "etlink_torch/steps/schedule.py"
        schedule = types.SimpleNamespace(**runpy.run_path(str(path)))
        names = ("skip_first", "wait", "warmup", "active", "repeat", "skip_first_wait")
        choices = ((0, 1, 3), (0, 2), (0, 1, 2), (1, 2), (0, 1, 2), (False, True))
        for values in itertools.product(*choices):
            arguments = dict(zip(names, values))
            for step in range(15):
                actions = ((at, schedule.action(arguments, at)) for at in range(step, 60))
                wanted = next((at for at, action in actions if action != schedule.NONE), schedule.NEVER)
                self.assertEqual(schedule.next_action(arguments, step), wanted, (arguments, step))

    EVERY_ITERATION = 6
    COUNTED = {
        "accumulation": "AdamW",
        "adversaries": "Adam",
        "one_backward_two_optimizers": "SGD",
        "closures": "LBFGS",
        "schedulers": "SGD",
        "schedulers_made_before": "SGD",
        "subclasses": "Own",
        "scaler_that_skips": "SGD",
        "zero_like": "Adam",
        "zero_like_swapping_parameters": "Adam",
        "in_backward": "SGD",
        "compiled_model": "AdamW",
        "compiled_after_the_optimizer": "AdamW",
        "compiled_step": "Adam",
        "forwards": "Sequential",
        "transforms_and_losses": "Sequential",
        "teacher_and_student": "Sequential",
        "a_class_that_is_chosen": "Student",
        "a_class_that_comes_later": "LateStudent",
        "torchscript": "Sequential",
        "torchscript_frozen": "Sequential",
        "traced_by_torchscript_first": "Sequential",
    }
    OTHER = {
        # name: steps, and what the program itself has found out
        "gradients_without_autograd": (5, None),
        # three of the first optimizer
        "a_pretraining_and_two_in_turn": (9, None),
        # that a phase has begun is not known at the first call of the second optimizer
        "phases_by_turns": (35, None),
        # three of the training before, and one of the generator: two of the critic are missed before it leads
        "a_critic_of_many_steps": (32, None),
        # of each trial three
        "trials": (18, None),
        "trials_that_are_kept": (18, None),
        "trials_of_adversaries": (18, None),
        # in the first two iterations each call of an inner optimizer counts; from the third on the outer one does
        "meta_learning_of_one_step": (7, None),
        "meta_learning_of_two_steps": (9, None),
        "meta_learning_of_tasks": (29, None),
        "meta_learning_that_keeps_its_last": (8, None),
        # one of the module that was traced
        "traced_by_fx": (7, None),
        # one of the probe
        "a_probe_first": (7, None),
        # and of the others all but the first
        "a_probe_that_stays_and_two_in_turn": (6, None),
        "parallel_and_bare": (12, None),
        "traced_by_torchscript": (3, 3),
        "compiled_in_place": (6, 1),
        "compiled_in_place_after_the_search": (12, 1),
        "compiled_from_outside": (6, 1),
        "compiled_inside_of_another": (12, 1),
        "hooks_of_the_program": (1, 1),
    }

    def loops(self, *words: str) -> dict:
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = ["python", str(MODIFIED / "steps.py"), *words]
        ran = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=600)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return json.loads(ran.stdout)

    def test_loops_of_many_kinds(self):
        found = self.loops()
        self.assertEqual(set(found), {*self.COUNTED, *self.OTHER})
        for name, kind in self.COUNTED.items():
            with self.subTest(name):
                wanted = {"steps": self.EVERY_ITERATION, "counted": kind, "notes": [], "result": None}
                self.assertEqual(found[name], wanted)
        for name, (steps, result) in self.OTHER.items():
            with self.subTest(name):
                counted = found[name]
                self.assertEqual((counted["steps"], counted["result"], counted["notes"]), (steps, result, []))

    def test_models_that_are_called_in_turn_cost_as_little_as_one(self):
        costs = self.loops("turns")["turns"]
        self.assertLess(costs["two"], 3 * costs["one"], costs)

    def test_nothing_stays_replaced(self):
        uses = self.loops("uses=100")["uses"]
        self.assertTrue(uses["same"])
        self.assertLess(uses["after"], 5 * uses["before"])

    def test_functions(self):
        for function, module, steps in (
            # the first import of torch is that of the module itself
            ("library:train_step", "library", 17),
            ("library:Trainer.train_step", "library", 8),
            ("library:Trainer.static_step", "library", 8),
            ("__main__:Loop.step", "library", 8),
        ):
            with self.subTest(function):
                ran = self.record(f"{SCHEDULE} --overwrite --step-on {function}", f"python application.py {module}")
                (rank,) = self.manifest()["ranks"]
                self.assertEqual((rank["steps"], rank["counted"]), (steps, function))
                self.assert_steps(rank, (3, 4))
                self.assertEqual(ran.stdout, "None None\n")

    def test_functions_that_are_not_there(self):
        for function, message in (
            ("library:Trainer.no_step", "library has no Trainer.no_step"),
            ("__main__:no_step", "the script has no no_step at its top level"),
            ("__main__:Loop.no_step", "Loop.no_step is not defined: the class has no no_step"),
        ):
            with self.subTest(function):
                command = "python application.py library"
                ran = self.record(f"{SCHEDULE} --overwrite --step-on {function}", command, code=1)
                self.assertEqual(ran.stdout, "None None\n")
                self.assertIn(f"--step-on {function}: {message}", ran.stderr)

    @with_frameworks
    def test_forwards_of_hugging_face(self):
        for step_on in ("forward", "forward:GPT2LMHeadModel"):
            with self.subTest(step_on):
                self.record(f"{SCHEDULE} --overwrite --step-on {step_on}", "python generate.py")
                (rank,) = self.manifest()["ranks"]
                # of each text the first token comes with the prompt
                self.assertEqual((rank["steps"], rank["counted"]), (12, "GPT2LMHeadModel"))
                self.assert_steps(rank, (3, 4))

    @with_frameworks
    def test_steps_of_accelerate(self):
        self.record(SCHEDULE, "python accelerated.py")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["steps"], rank["counted"]), (6, "AdamW"))
        self.assert_steps(rank, (3, 4))


class InScripts(Traces):
    """`from etlink_torch import profile` in programs that are run without `etlink record`."""

    TWO_STEPS = "wait=2, warmup=1, active=2"

    def run_in(self, options: str, *more: str, code: int = 0, launcher: str = "python", steps: int = 8) -> subprocess.CompletedProcess:
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = [*launcher.split(), str(MODIFIED / "train.py"), str(steps), options, *more]
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def files(self) -> list[str]:
        return sorted(path.name for path in self.traces.iterdir())

    @fresh
    def test_two_lines(self):
        ran = self.run_in(self.TWO_STEPS + ", record_shapes=True, activities=[torch.profiler.ProfilerActivity.CPU]")
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["rank"], rank["steps"], rank["notes"]), (0, 8, []))
        self.assert_steps(rank, (3, 4))
        self.assertEqual(self.files(), ["etlink.json", "kineto_trace_0.json", "torch_et_0.json"])
        self.assertEqual(load(self.traces / "kineto_trace_0.json")["record_shapes"], 1)
        subprocess.run([CHOSEN.etlink, "merge", str(self.traces), "-o", str(self.folder / "linked"), "--strict"], check=True, capture_output=True)

    def test_steps_of_the_optimizer_end_with_the_block(self):
        self.run_in(self.TWO_STEPS + ", step_on='optimizer', gzip=True")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["steps"], 8)
        self.assert_steps(rank, (3, 4))
        self.assertEqual(self.files(), ["etlink.json", "kineto_trace_0.json.gz", "torch_et_0.json.gz"])

    def test_ranks_share_a_manifest(self):
        self.run_in(self.TWO_STEPS + ", repeat=2", launcher="torchrun --nproc-per-node 2", steps=12)
        ranks = self.manifest()["ranks"]
        self.assertEqual([(rank["rank"], rank["world"]) for rank in ranks], [(0, 2), (1, 2)])
        for rank in ranks:
            self.assert_steps(rank, (3, 4), (8, 9))
        self.assertNotIn(".etlink", self.files())
        self.run_in(self.TWO_STEPS + ", ranks=[1], overwrite=True", launcher="torchrun --nproc-per-node 2")
        excluded = [rank["excluded"] for rank in self.manifest()["ranks"]]
        self.assertEqual((excluded, self.files()), ([True, False], ["cycle_1", "etlink.json", "kineto_trace_1.json", "torch_et_1.json"]))

    def test_nothing_is_overwritten_unasked(self):
        self.run_in(self.TWO_STEPS)
        ran = self.run_in(self.TWO_STEPS, code=1)
        self.assertRegex(ran.stderr, "FileExistsError: .*already exists; .*overwrite=True")
        self.run_in(self.TWO_STEPS + ", overwrite=True")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_the_claim_of_a_process_that_was_killed_elsewhere(self):
        """A container that was killed on another machine leaves its claim on a rank in the folder that both share."""
        for form in (self.TWO_STEPS, "schedule=torch.profiler.schedule(wait=2, warmup=1, active=2, repeat=1)"):
            with self.subTest(form):
                work = self.traces / ".etlink"
                work.mkdir(parents=True)
                (work / "rank_0").write_text("other-host.7")
                self.run_in(form + ", overwrite=True")
                (rank,) = self.manifest()["ranks"]
                self.assertEqual((rank["duplicate"], rank["notes"], work.exists()), (False, [], False))
                self.assert_steps(rank, (3, 4))

    def test_what_goes_wrong(self):
        self.run_in("wait=10, warmup=2, active=2")
        (note,) = self.manifest()["notes"]
        self.assertIn("the program made 8 steps, but recording starts at step 12", note)
        self.run_in(self.TWO_STEPS, "fail", "4", code=9)
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        self.assertFalse(rank["cycles"][0]["whole"])
        self.assertIn("active is 0, needs to be at least 1", self.run_in("active=0", code=1).stderr)
        self.assertIn("activities has gpu", self.run_in("activities=['gpu']", code=1).stderr)
        self.assertIn("no option with_stacks", self.run_in("with_stacks=True", code=1).stderr)

    def test_a_signal_that_c_code_handles_stays_handled(self):
        program = (
            "import faulthandler, os, signal, torch\n"
            "from etlink_torch import profile\n"
            "faulthandler.register(signal.SIGUSR1)\n"
            "with profile('traces', active=1) as prof:\n"
            "    torch.ones(2).add(1)\n"
            "    prof.step()\n"
            "os.kill(os.getpid(), signal.SIGUSR1)\n"
            "print(prof.notes)\n"
        )
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = ["python", "-c", program]
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual((ran.returncode, ran.stdout), (0, "[]\n"), ran.stderr)

    def test_under_the_command_the_command_decides(self):
        self.python_path = str(PACKAGE)
        before = sorted(PACKAGE.iterdir())
        ran = self.record(SCHEDULE, f"python {MODIFIED}/train.py 8 wait=0,active=1")
        # the copy of sitecustomize.py beside the package is not the hook
        self.assertEqual(sorted(PACKAGE.iterdir()), before)
        self.assertNotIn("sitecustomize", ran.stderr)
        self.assertRegex(ran.stdout, r"\Aloss")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_pip_installs_it(self):
        copy = shutil.copytree(PACKAGE, self.folder / "package", ignore=shutil.ignore_patterns("__pycache__"))
        install = [str(CHOSEN.python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(self.folder / "site"), str(copy)]
        subprocess.run(install, check=True, capture_output=True)
        self.assertTrue((self.folder / "site/etlink_torch/context.py").exists())
        self.assertFalse((self.folder / "site/sitecustomize.py").exists())


LONGEST = (
    "test_nothing_stays_replaced",
    "test_functions",
    "test_loops_of_many_kinds",
    "test_other_steps",
    "test_forwards_of_hugging_face",
    "test_functions_that_are_not_there",
)


def main(longest: tuple[str, ...], libraries: tuple[str, ...] = (), modules: tuple[str, ...] = ("__main__",)) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--etlink", required=True, help="the command to test")
    parser.add_argument("--torch", default=NEWEST, metavar="VERSION")
    parser.add_argument("--venvs", type=Path, default=Path("target/testdata-venvs"))
    parser.add_argument("--fault-sample", type=int, default=1, metavar="N", help="fail one in N places of the hook, others each day")
    parser.add_argument("--all", action="store_true", help="fail every call of the hook, not only the first and last of each place")
    parser.add_argument("--fresh", action="store_true", help="start each program by the interpreter itself, not by a fork of one that has imported PyTorch")
    chosen, rest = parser.parse_known_args()
    CHOSEN.all, CHOSEN.fault_sample = chosen.all, chosen.fault_sample
    CHOSEN.etlink, CHOSEN.torch = str(Path(chosen.etlink).resolve()), chosen.torch
    CHOSEN.python = venvs.python_of(chosen.venvs.resolve(), chosen.torch)
    # before the tests: what one of them imports may not change
    venvs.add(CHOSEN.python, CHOSEN.torch, libraries)
    with contextlib.ExitStack() as stack:
        servers = {"torch": WarmPython(CHOSEN.python)}
        if "lightning" in libraries:
            servers["frameworks"] = WarmPython(CHOSEN.python, FRAMEWORKS_USED)
        for kind, server in servers.items() if not chosen.fresh else ():
            CHOSEN.servers[kind] = [stack.enter_context(server)]
        for kind in CHOSEN.servers:
            servers[kind].wait()
        counts = parallel.run_modules(modules, rest, longest)
    parallel.end(counts)


LIBRARIES = ("transformers", "accelerate")

if __name__ == "__main__":
    main(LONGEST, LIBRARIES)
