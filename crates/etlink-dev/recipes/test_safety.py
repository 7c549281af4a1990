"""`etlink record` when something goes wrong: the program goes on as without it, and what is missing is said.

    python3 crates/etlink-dev/recipes/test_safety.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch` with the others (suites.py).
"""

import json
import os
import pickle
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import test_torch
import venvs
from catalog import version_key
from test_torch import CHOSEN, MODIFIED, PACKAGE, PROGRAMS, SCHEDULE, Traces, device_ops, environment, fresh, host_ops

FAULTS = PROGRAMS.parent / "faults.py"


class Safety(Traces):
    def start(self, options: str, command: str, **more) -> subprocess.Popen:
        """As `record`, but does not wait for the end."""
        words = [str(PROGRAMS / word) if word.endswith(".py") else word for word in command.split()]
        line = [CHOSEN.etlink, "record", *options.split(), "-o", str(self.traces), "--", *words]
        variables = environment() | {"PYTHONPATH": "", "TMPDIR": str(self.folder)} | more
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        return subprocess.Popen(line, cwd=self.folder, env=variables, **pipes)

    def wait_for(self, condition, seconds: float = 300):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                there = sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))
                self.fail("waited too long; in the folder: {}".format(there))
            time.sleep(0.05)

    def left(self) -> list[str]:
        return sorted(path.name for path in self.traces.iterdir())

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path


class Faults(Safety):
    def test_every_call_of_the_hook_may_fail(self):
        runs = self.folder / "runs"
        runs.mkdir()
        options = "--wait 1 --warmup 1 --active 2 --memory-snapshot --cuda-graph-nodes"
        sample = 0 if CHOSEN.all else CHOSEN.fault_sample
        process = self.start(options, f"python {FAULTS} {runs} {sample}")
        out, err = process.communicate(timeout=7200 if CHOSEN.all else 1200)
        report = json.loads(out)
        self.assertEqual(report["wrong"], [], err[-2000:])
        calls, sites = report["calls"], report["sites"]
        counted = "{failed} of {all} calls in the hook's source are reached and failed".format(**sites)
        print(f"{counted}, in {report['faults']} runs with {len(calls)} ways to count steps", flush=True)
        self.assertGreater(sites["failed"], 500)
        # of most places the first and the last call
        self.assertGreater(report["faults"], 1.4 * sites["failed"] / CHOSEN.fault_sample)
        self.assertGreater(calls.pop("optimizer"), 300)
        self.assertTrue(calls and all(count > 10 for count in calls.values()), calls)
        self.assertGreater(len(report["failed"]), 20 / CHOSEN.fault_sample)

    def test_files_that_may_not_grow(self):
        """RLIMIT_FSIZE: PyTorch's writers do not notice, the traces would be cut."""
        line = [CHOSEN.etlink, *f"record {SCHEDULE} -o traces -- python".split(), str(PROGRAMS / "train.py"), "8"]

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

        variables = environment() | {"PYTHONPATH": ""}
        ran = subprocess.run(line, cwd=self.folder, env=variables, preexec_fn=limit, capture_output=True, text=True)
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        self.assertEqual((ran.returncode, self.left()), (1, ["etlink.json"]), ran.stderr)
        self.assertIn("a trace of this cycle is incomplete", ran.stderr)

    def test_the_folder_goes_while_the_program_runs(self):
        script = self.script("removes.sh", f"rm -rf {self.traces}; python {PROGRAMS}/train.py 8\n")
        ran = self.record(SCHEDULE, f"sh {script}", code=1)
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        self.assertIn("No such file or directory", ran.stderr)


class Ends(Safety):
    def test_a_job_that_outlives_the_command(self):
        # a program that has not come to torch when the command ends is not recorded
        waits = f"while ! ls {self.traces}/.etlink/*.steps >/dev/null 2>&1; do sleep 0.05; done\n"
        script = self.script("starts.sh", f"python {PROGRAMS}/train.py 8 >printed 2>&1 &\n{waits}")
        process = self.start(SCHEDULE + " --gzip", f"sh {script}")
        process.communicate(timeout=300)
        manifest = self.traces / "etlink.json"
        self.wait_for(lambda: manifest.exists() and self.manifest()["ranks"] and self.manifest()["ranks"][0]["cycles"])
        self.wait_for(lambda: self.left() == ["etlink.json", "kineto_trace_0.json.gz", "torch_et_0.json.gz"])
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        self.wait_for(lambda: not list(self.folder.glob("etlink-hook-*")))
        self.assertRegex((self.folder / "printed").read_text(), r"loss \d\.\d+\n")

    def test_a_daemon_that_closes_all_descriptors(self):
        """Nothing tells the command that it lives. It is recorded all the same, and then no note says that nothing is."""
        ended = self.folder / "ended"
        script = self.script("starts.sh", f"python {PROGRAMS}/daemon.py {ended} >printed 2>&1\n")
        process = self.start(SCHEDULE, f"sh {script}")
        _, err = process.communicate(timeout=300)
        self.assertIn("nothing was recorded: the program imported torch but made no step", err)
        self.assertEqual(self.left(), ["etlink.json"])
        ended.touch()
        self.wait_for(lambda: self.left() == ["etlink.json", "kineto_trace_0.json", "torch_et_0.json"], 60)
        self.assertEqual(self.manifest()["notes"], [])
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_a_process_that_ends_while_the_command_does(self):
        self.assert_left_whole("")

    def test_a_process_that_ends_long_after_its_last_function(self):
        self.assert_left_whole("late")

    def assert_left_whole(self, when: str):
        lives = self.folder / "lives"
        waits = f"while ! test -e {lives}; do sleep 0.05; done\n"
        script = self.script("starts.sh", f"python {PROGRAMS}/lingering.py 8 {lives} {when} >printed 2>&1 &\n{waits}")
        process = self.start(SCHEDULE + " --gzip", f"sh {script}")
        _, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0, err)
        # it has nothing to add any more, and lives
        self.assertTrue(lives.exists(), err)
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))
        self.assertEqual(self.left(), ["etlink.json", "kineto_trace_0.json.gz", "torch_et_0.json.gz"])
        self.assertNotIn("is still running", err)
        lives.unlink()
        self.wait_for(lambda: not list(self.folder.glob("etlink-hook-*")))

    def test_sigterm_while_a_cycle_is_saved(self):
        saving = self.folder / "saving"
        process = self.start(SCHEDULE, f"python slow_disk.py {saving}")
        self.wait_for(saving.exists)
        process.terminate()
        _, err = process.communicate(timeout=300)
        self.assertRegex(err, r"writing the traces paused the program for up to \d+\.\d s \(at the end of step 4 of rank 0\)")
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, err)
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_sigterm_ends_a_rank_that_waits_for_another_in_cpp(self):
        pids = self.folder / "pids"
        options = "--wait 3 --warmup 1 --active 3 --ranks 0"
        process = self.start(options, f"python stuck.py {self.folder}/store {pids}")
        self.wait_for(lambda: pids.exists() and pids.read_text().endswith("\n"))
        time.sleep(1)
        os.kill(int(pids.read_text()), signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        self.assertEqual(out, f"rank 0 ended with {-signal.SIGTERM}\n", err)
        (rank,) = [rank for rank in self.manifest()["ranks"] if rank["rank"] == 0]
        # a profiler that is not of all threads cannot be stopped by another one
        saved = [(4, 5, False)] if version_key(CHOSEN.torch) >= (2, 3) else []
        self.assertEqual([(c["first_step"], c["last_step"], c["whole"]) for c in rank["cycles"]], saved)
        self.assertEqual(rank["lost"], not saved)

    def test_a_program_that_becomes_another(self):
        ran = self.record(SCHEDULE, "python train.py 8 die 4 exec")
        self.assertEqual(ran.stdout, "another program\n")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        self.assertEqual((rank["lost"], rank["cycles"][0]["whole"]), (False, False))
        notes = [line for line in ran.stderr.splitlines() if "step 4" in line and "note:" in line]
        self.assertEqual(notes, ["etlink: note: rank 0: it became another program (exec) in step 4, which is recorded up to the exec"])
        # one that is not there, and one that a forked child becomes, end nothing
        text = (PROGRAMS / "train.py").read_text().replace("1 / 0", "become()")
        become = (
            "def become():\n"
            "    try:\n"
            "        os.execlp('no_such_program', 'no_such_program')\n"
            "    except FileNotFoundError:\n"
            "        child = os.fork()\n"
            "        if child == 0:\n"
            "            os.execlp('echo', 'echo', 'child')\n"
            "        os.waitpid(child, 0)\n"
        )
        script = self.script("becomes.py", text.replace("HOW = {", become + "HOW = {"))
        ran = self.record(SCHEDULE + " --overwrite", f"python {script} 8 die 4 raise")
        self.assertRegex(ran.stdout, r"\Achild\nloss \d\.\d+\n\Z")
        (rank,) = self.manifest()["ranks"]
        self.assert_steps(rank, (3, 4))
        self.assertTrue(rank["cycles"][0]["whole"])
        self.assertEqual(rank["notes"], [])

    def test_a_program_that_fails_to_become_another(self):
        """It goes on, and so does its recording."""
        lacking, unknown = self.script("lacking", "#!/no/such/python\n"), self.script("unknown", "\0no program\n")
        text = (PROGRAMS / "train.py").read_text().replace("1 / 0", "become()")
        for path, cycles, note in (
            (lacking, [(3, 4, True), (8, 9, True)], None),
            (unknown, [(3, 4, False), (8, 9, True)], "another program (exec) in step 4, which failed: OSError: [Errno 8] Exec format error"),
        ):
            path.chmod(0o755)
            become = (
                "def become():\n"
                "    try:\n"
                f"        os.execv({str(path)!r}, ['a program'])\n"
                "    except OSError as error:\n"
                "        print(error.errno)\n"
            )
            script = self.script("fails.py", text.replace("HOW = {", become + "HOW = {"))
            with self.subTest(path.name):
                ran = self.record(SCHEDULE + " --repeat 2 --overwrite", f"python {script} 12 die 4 raise")
                self.assertRegex(ran.stdout, r"\A[28]\nloss \d\.\d+\n\Z")
                (rank,) = self.manifest()["ranks"]
                found = [(cycle["first_step"], cycle["last_step"], cycle["whole"]) for cycle in rank["cycles"]]
                self.assertEqual(found, cycles)
                if note is None:
                    self.assertEqual(rank["notes"], [])
                else:
                    self.assertIn(note, rank["notes"][0])
                self.assertNotIn("the program ended in step", ran.stderr)

    def test_a_forked_child_ends(self):
        ran = self.record(SCHEDULE, "python forking.py")
        self.assertEqual(ran.stdout, "child\nended with 3\n")

    def test_children_of_a_rank_see_nothing(self):
        """Once a rank is recorded, what it starts is a helper; before that it may be a rank."""
        shown = "import os; print('ETLINK_RECORD' in os.environ, os.environ.get('PYTHONPATH'))"
        child = f"subprocess.run([sys.executable, '-c', {shown!r}], check=True)"
        text = f"import subprocess, sys\n{child}\n" + (PROGRAMS / "train.py").read_text() + f"\n{child}\n"
        script = self.script("starts_children.py", text)
        self.python_path = "mine"
        ran = self.record(SCHEDULE, f"python {script} 8")
        first, last = [line for line in ran.stdout.splitlines() if not line.startswith("loss")]
        self.assertRegex(first, r"True .*etlink-hook-.*mine")
        self.assertEqual(last, "False mine")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_nested_recordings(self):
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        for case, printed in (
            ("OURS", "[] ['another `profile` is already recording, so this one does nothing']"),
            ("THEIRS", "1 ['a profiler of the program is already recording, so this one does nothing']"),
            ("WARMUP", "1 ['a profiler of the program is already recording, so this one does nothing']"),
        ):
            with self.subTest(case):
                line = ["python", str(PROGRAMS / "nested.py"), case]
                ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True)
                self.assertEqual((ran.returncode, ran.stdout.strip()), (0, printed), ran.stderr)
        self.assertEqual(len(list((self.folder / "outer").glob("*_0.json"))), 2)


class Signals(Safety):
    """What handlers of the program do."""

    def test_handlers_are_in_the_system_as_the_program_has_set_them(self):
        for schedule in (SCHEDULE, "--wait 1000 --warmup 1 --active 1"):
            code = 0 if schedule == SCHEDULE else 1
            ran = self.record(schedule + " --overwrite", "python handlers.py 8", code=code)
            self.assertIn("same True\nsame in a child True\n", ran.stdout)

    def test_no_lock_stays_locked_where_a_handler_raises(self):
        """Outside of the recorded step, and in it."""
        for options in ("--armed", "--wait 1 --warmup 0 --active 1"):
            with self.subTest(options):
                ran = self.record(options + " --overwrite", "python interrupted.py")
                self.assertEqual(ran.stdout, "300 0\n" * 4)
        self.assert_steps(self.manifest()["ranks"][0], (1, 1))

    def test_what_a_handler_raises_reaches_the_program(self):
        """Whatever we do just then, which is recorded all the same."""
        ran = self.record("--wait 0 --warmup 1 --active 1 --repeat 0", "python timed_out.py")
        self.assertEqual(ran.stdout, "40\nTrue\n")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["notes"], [])
        self.assertGreater(len(rank["cycles"]), 5)
        # the end of the program may cut the last one
        for cycle in filter(lambda cycle: cycle["whole"], rank["cycles"]):
            self.assert_pair(cycle)

    def test_a_step_counts_at_whose_end_a_handler_raises(self):
        ran = self.record(SCHEDULE, "python interrupted_step.py")
        self.assertEqual(ran.stdout, "caught in step 3\n")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["notes"], rank["steps"]), ([], 8))
        self.assert_steps(rank, (3, 4))

    def test_signals_that_come_while_a_cycle_is_saved_are_handled_once(self):
        ran = self.record(SCHEDULE, "python signalled.py")
        self.assertEqual(ran.stdout, "caught loop plain raises\n")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))


    def test_handlers_that_hide_their_arguments_and_those_of_c(self):
        """What they raise reaches the program, and no cycle is given up for it."""
        ran = self.record("--wait 0 --warmup 0 --active 1 --repeat 3", "python odd_handlers.py")
        self.assertEqual(ran.stdout, "Late Late TypeError\n")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["notes"], len(rank["cycles"])), ([], 3))

    def test_conditions_over_locks_are_left_as_in_plain_python(self):
        """Of 1,600 handlers 7 to 10 come just before the lock is taken again in plain Python, up to 21 here; it was 65 with lines of ours there."""
        ran = self.record("--wait 1 --warmup 0 --active 2", "python conditions.py")
        found = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
        self.assertEqual([seen for seen, _ in found], [800, 800])
        self.assertLess(sum(lost for _, lost in found), 40)

    WAKEUPS = """
import asyncio, os, signal
from etlink_torch.signals import Termination

replaced, handled, calls = signal.set_wakeup_fd, [], []

def replace(number, **named):
    before = replaced(number, **named)
    calls.append(before)
    if len(calls) % 2:
        # just when the program's own is not set
        os.kill(os.getpid(), signal.SIGUSR1)
    return before

async def main():
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, handled.append, 1)
    signal.set_wakeup_fd = replace
    for _ in range(10):
        before = len(handled)
        termination = Termination(None, None)
        termination.install()
        while len(handled) == before:
            await asyncio.sleep(0)
    signal.set_wakeup_fd = replaced
    print(termination.installed)

asyncio.run(asyncio.wait_for(main(), 20))
"""

    @fresh
    def test_children_of_a_recorded_step_are_as_plain_ones(self):
        """They end when they are told to, are not profiled, and their files are their own."""
        place = self.folder / "files"
        place.mkdir()
        ran = self.record(SCHEDULE, f"python children.py {place}")
        self.assert_plain_children(ran, place)

    @fresh
    def test_children_of_a_step_of_the_programs_own_profiler_are_as_plain_ones(self):
        place = self.folder / "files"
        place.mkdir()
        ran = self.record("", f"python children.py {place} own")
        self.assertIn("left 7\n", ran.stdout)
        self.assert_plain_children(ran, place)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(rank["notes"], [])
        self.assertEqual(len(rank["cycles"]), 1)

    def assert_plain_children(self, ran: subprocess.CompletedProcess, place: Path):
        self.assertIn("ended [-15]", ran.stdout)
        words = next(line for line in ran.stdout.splitlines() if line.startswith("cost")).split()
        cost, before, grown = float(words[1]), float(words[3]), int(words[5])
        self.assertLess(cost, 4 * before + 10, ran.stdout)
        self.assertLess(grown, 2 << 10, "KiB of the profiler's records")
        for number in range(8):
            self.assertEqual((place / f"own{number}").read_text(), f"hello {number}")

    def test_a_child_that_is_ended_just_when_it_is_forked(self):
        """While a cycle is saved its parent lets signals wait."""
        ran = self.record(SCHEDULE, "python terminated.py")
        self.assertEqual(ran.stdout, f"{-signal.SIGTERM}\n")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    SIGNALS_OF_A_CHILD = """
import os, signal, sys, time
from etlink_torch.signals import Termination
termination = Termination(lambda: print("saved", flush=True), lambda: True)
termination.install()
# what a child writes there whose handlers are not its own yet
os.write(termination.ends[1].number, bytes([signal.SIGTERM]))
ended = time.monotonic() + 4
while time.monotonic() < ended:
    sum(range(1000))
termination.uninstall()
print("lives")
"""

    def test_a_signal_of_a_child_does_not_end_its_parent(self):
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = ["python", "-c", self.SIGNALS_OF_A_CHILD]
        ran = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stdout), (0, "lives\n"), ran.stderr)

    def test_signals_that_come_while_it_is_seen_who_waits_for_them(self):
        """asyncio learns of a signal by a byte in its descriptor."""
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        ran = subprocess.run(["python", "-c", self.WAKEUPS], env=variables, capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stdout), (0, "False\n"), ran.stderr)


class Descriptors(Safety):
    OTHER_EACH_TIME = """
import os, sys
from etlink_torch import descriptors, files
numbers = iter(range(100_000))
descriptors.identity_by = lambda look, place: next(numbers)
if sys.argv[2] == "no link":
    descriptors.link_of = lambda number: None
file = descriptors.OwnFile(sys.argv[1] + "/steps")
for number in range(100):
    file.write(b"%d" % number, 0)
    files.write_whole(sys.argv[1] + "/whole", str(number))
    with descriptors.held(sys.argv[1] + "/whole", os.O_RDONLY) as whole:
        assert whole.read(100) == b"%d" % number
print(len(os.listdir("/proc/self/fd")) < 20, open(sys.argv[1] + "/steps").read())
"""

    def test_a_file_system_on_which_a_file_is_another_one_each_time(self):
        for link in ("link", "no link"):
            with self.subTest(link):
                self.assertEqual(self.run_alone(self.OTHER_EACH_TIME, link), "True 99\n")

    def run_alone(self, program, *arguments):
        """What a program with the hook's modules prints that runs in a folder of its own."""
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        with tempfile.TemporaryDirectory() as folder:
            line = ["python", "-c", program, folder, *arguments]
            ran = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        return ran.stdout

    LATE = """
import os, sys
from etlink_torch import descriptors, files
descriptors.KEEPER.keep(None)
is_at, opened = descriptors.Descriptor.is_at, []
def is_at_and_closed(self, path, before):
    found = is_at(self, path, before)
    if not opened:
        # a call of the program that had looked before whether the number is ours
        descriptors.CLOSE(self.number)
        opened.append(os.open(sys.argv[1] + "/program", os.O_RDWR | os.O_CREAT))
        assert opened == [self.number]
        os.write(opened[0], b"CHECKPOINT")
    return found
descriptors.Descriptor.is_at = is_at_and_closed
files.write_whole(sys.argv[1] + "/ours", "OURS")
print(os.pread(opened[0], 100, 0), open(sys.argv[1] + "/ours").read())
"""

    def test_a_number_that_is_closed_while_it_is_looked_at_is_the_programs(self):
        self.assertEqual(self.run_alone(self.LATE), "b'CHECKPOINT' OURS\n")

    BESIDE = """
import contextlib, os, sys, threading
from etlink_torch import descriptors, files
folder = sys.argv[1]
ended, done, refused = threading.Event(), [0], []
def work():
    while not ended.is_set():
        try:
            files.write_whole(folder + "/ours", "OURS" * 100)
            files.write_new(folder + "/new", folder + "/own", "NEW")
            with descriptors.held(folder + "/ours", os.O_RDONLY) as file:
                assert file.read(1000) == b"OURS" * 100
            assert "ours" in descriptors.names_in(folder)
            descriptors.opened(folder + "/kept", os.O_RDWR | os.O_CREAT).close()
            os.remove(folder + "/new")
            done[0] += 1
        except OSError as error:
            refused.append(error)
descriptors.KEEPER.keep(None)
thread = threading.Thread(target=work, daemon=True)
thread.start()
def close_each(first, end):
    for number in range(first, end):
        with contextlib.suppress(OSError):
            os.close(number)
close = {"range": lambda first, end: os.closerange(first, end), "each": close_each}[sys.argv[2]]
for _ in range(1000):
    close(3, 200)
    ends = os.pipe()
    for end in ends:
        os.close(end)
    for end in ends:
        with contextlib.suppress(OSError):
            assert not os.readlink(f"/proc/self/fd/{end}").startswith("pipe:"), "the program's own close was passed over"
    opened = [os.open(f"{folder}/program_{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for number in range(10)]
    for number in opened:
        os.write(number, b"CHECKPOINT")
    for number in opened:
        assert os.pread(number, 100, 0) == b"CHECKPOINT"
ended.set()
thread.join()
print(done[0] > 20, refused[:3])
"""

    def test_a_thread_of_ours_beside_a_program_that_closes_what_it_does_not_know(self):
        """Whatever it does with files: those of the program stay open until it closes them, and have what it wrote."""
        for how in ("range", "each"):
            with self.subTest(how):
                self.assertEqual(self.run_alone(self.BESIDE, how), "True []\n")

    def test_a_program_that_closes_what_it_does_not_know(self):
        """Its own files, which get the numbers of ours, have what it wrote; steps are counted and recorded."""
        for options, cycles, code in (("--wait 1000 --warmup 1 --active 1", [], 1), ("--armed", [], 0), (SCHEDULE, [(3, 4)], 0)):
            with self.subTest(options):
                ran = self.record(options + " --overwrite", "python closing.py", code=code)
                self.assertEqual(ran.stdout, "{b'CHECKPOINT'}\n")
                (rank,) = self.manifest()["ranks"]
                self.assertEqual(rank["steps"], 8)
                self.assert_steps(rank, *cycles)
        self.assertFalse((self.traces / ".etlink").exists())


    def test_a_program_that_closes_what_it_does_not_know_in_a_recorded_cycle(self):
        """PyTorch writes the host trace with each op, into a descriptor that the program does not know."""
        for how in ("3 range", "4 each", "3 listed", "3 range own", "4 each own", "4 listed own"):
            with self.subTest(how):
                schedule = "" if "own" in how else SCHEDULE
                ran = self.record(schedule + " --overwrite", f"python closing.py {how}")
                self.assertEqual(ran.stdout, "{b'CHECKPOINT'}\n")
                (rank,) = self.manifest()["ranks"]
                self.assertEqual(rank["notes"], [])
                if "own" in how:
                    self.assert_pair_of_own(rank["cycles"])
                else:
                    self.assert_steps(rank, (3, 4))
        # what C closes is closed
        for how in ("3 c", "4 c", "3 c own"):
            with self.subTest(how):
                ran = self.record(SCHEDULE + " --overwrite", f"python closing.py {how}", code=1)
                self.assertEqual(ran.stdout, "{b'CHECKPOINT'}\n")
                self.assertIn("the program closed the file of PyTorch's host trace: the cycle is discarded", ran.stderr)
        self.assertFalse((self.traces / ".etlink").exists())

    FEW = """
import os, resource, torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [os.open(os.devnull, os.O_RDONLY)]
while held[-1] < 40:
    held.append(os.open(os.devnull, os.O_RDONLY))
for _ in range(8):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""

    def test_a_program_that_may_open_few_files(self):
        script = self.script("few.py", self.FEW)
        self.record(SCHEDULE, f"python {script}")
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    TAKEN_OVER = """
import ctypes, os, sys, torch
from etlink_torch.observer_file import ObserverFile
file = ObserverFile(torch.profiler.ExecutionTraceObserver(), sys.argv[1] + "/host.json")
file.register()
number = file.descriptor.number
os.close(number)
print(number >= 512, file.is_lost())
ctypes.CDLL(None).close(number)
own = os.open(sys.argv[1] + "/own", os.O_WRONLY | os.O_CREAT)
os.dup2(own, number)
os.write(number, b"CHECK")
print(file.is_lost())
file.unregister()
os.write(number, b"POINT")
print(open(sys.argv[1] + "/own").read(), os.close.__class__.__name__)
"""

    def test_a_file_of_the_program_that_has_got_the_number_of_the_host_trace(self):
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        line = ["python", "-c", self.TAKEN_OVER, str(self.folder)]
        ran = subprocess.run(line, env=variables, capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.returncode, ran.stdout), (0, "True False\nTrue\nCHECKPOINT builtin_function_or_method\n"), ran.stderr)

    def assert_pair_of_own(self, cycles: list[dict]):
        """The host trace of what the program's own profiler has recorded is whole."""
        (cycle,) = cycles
        host = host_ops(self.traces / cycle["host_trace"])
        self.assertEqual(set(host.items()) - set(device_ops(self.traces / cycle["device_trace"])), set())
        self.assertGreater(len(host), 100)

class Pickles(Safety):
    @fresh
    def test_pickles_are_read_without_us(self):
        """In the recording and outside of it."""
        self.python_path = str(venvs.picklers(CHOSEN.python))
        pickles = self.folder / "pickles"
        pickles.mkdir()
        ran = self.record("--wait 1 --warmup 0 --active 2", f"python pickling.py {pickles}")
        lines = ["cannot pickle '_thread.lock' object", *["cannot pickle '_thread.RLock' object"] * 2]
        self.assertEqual(ran.stdout.splitlines(), lines * 4)
        read = (
            "import dill, pathlib, pickle, sys, threading\n"
            "for path in sorted(pathlib.Path(sys.argv[1]).iterdir()):\n"
            "    library = dill if path.name.startswith('dill') else pickle\n"
            "    lock, locks, reentrant, *more = library.loads(path.read_bytes())\n"
            "    assert lock is locks.default_factory is threading.Lock and reentrant is threading.RLock, path\n"
            "    assert library is dill or not more or more == [type(threading.RLock())], path\n"
            "    assert library is pickle or (more[0].locked() and type(more[1]) is type(threading.RLock())), path\n"
            "assert not [name for name in sys.modules if 'etlink' in name]\n"
        )
        variables = environment() | {"PYTHONPATH": self.python_path}
        subprocess.run(["python", "-c", read, str(pickles)], env=variables, check=True, timeout=60)
        self.assertEqual(len(list(pickles.iterdir())), 4 * (2 * (pickle.HIGHEST_PROTOCOL + 1) + 2))


class Tools(Safety):
    TRACE = (
        "import runpy, sys, threading\n"
        "seen = set()\n"
        "def follow(frame, event, argument):\n"
        "    seen.add(frame.f_code.co_filename)\n"
        "sys.settrace(follow)\n"
        "threading.settrace(follow)\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0])\n"
        "sys.settrace(None)\n"
        "ours = [name for name in seen if '<etlink>' in name or 'etlink-hook' in name]\n"
        "print(len(ours) > 20, [name for name in ours if not name.startswith('<')])\n"
    )

    @fresh
    def test_code_of_ours_has_no_files_that_are_gone(self):
        """Tools that follow a program, such as coverage, look for the source of what ran."""
        script = self.script("traced.py", self.TRACE)
        ran = self.record(SCHEDULE, f"python {script} {PROGRAMS / 'train.py'} 8")
        self.assertEqual(ran.stdout.splitlines()[-1], "True []")


class Locks(Safety):
    def test_locks_are_those_of_python(self):
        """Their types, what makes them, and what is called on them by either."""
        ran = self.record("--wait 1 --warmup 0 --active 2", "python lock_types.py")
        self.assertEqual(ran.stdout, "[]\n")
        self.assert_steps(self.manifest()["ranks"][0], (1, 2))


class Clocks(Safety):
    """How the clocks of machines lie to each other is measured by the times of files in the folder that they share."""

    SHIFT = """#define _GNU_SOURCE
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = syscall(SYS_clock_gettime, clock, time);
  if (!failed && clock == CLOCK_REALTIME) time->tv_sec -= 5;
  return failed;
}
"""

    def behind(self) -> dict[str, str]:
        """The environment of a program whose clock is 5 s behind."""
        source, library = self.script("shift.c", self.SHIFT), self.folder / "shift.so"
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], check=True)
        return {"LD_PRELOAD": str(library)}

    def assert_clock(self, rank: dict, seconds: float):
        clock = rank["clock"]
        self.assertEqual(clock["against"], "file system of the output folder")
        self.assertLessEqual(abs(clock["offset_ns"] - seconds * 1e9), clock["uncertainty_ns"])
        self.assertLess(clock["uncertainty_ns"], 1e9)

    def test_a_machine_whose_clock_is_behind(self):
        behind = self.behind()
        for number, more in ((0, {}), (1, behind)):
            slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(number)}
            process = self.start(SCHEDULE, "python train.py 8", **slurm, **more)
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
        manifest = self.manifest()
        for rank, seconds in zip(manifest["ranks"], (0, 5)):
            self.assert_clock(rank, seconds)
        manifest["ranks"][1]["host"] = "other"
        (self.traces / "etlink.json").write_text(json.dumps(manifest))
        ran = subprocess.run([CHOSEN.etlink, "ranks", str(self.traces)], capture_output=True, text=True)
        self.assertRegex(ran.stderr, r"states that the clock of other is (4\.9|5\.0)\d\d s behind the clock of .*, within 0\.\d+ s")

    def test_a_script_without_the_command(self):
        variables = environment() | {"PYTHONPATH": str(PACKAGE)} | self.behind()
        line = ["python", str(MODIFIED / "train.py"), "8", "wait=2, active=2"]
        ran = subprocess.run(line, cwd=self.folder, env=variables, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assert_clock(self.manifest()["ranks"][0], 5)


class HookFolders(Safety):
    """The private folders of commands that were killed: the next command removes those that nobody needs."""

    def setUp(self):
        super().setUp()
        self.stop = self.folder / "stop"

    def hooks(self) -> list[Path]:
        return sorted(self.folder.glob("etlink-hook-*"))

    def record_nothing(self, *before: str):
        variables = dict(os.environ, TMPDIR=str(self.folder))
        line = [*before, CHOSEN.etlink, "record", "--armed", "--overwrite", "-o", str(self.folder / "nothing"), "--", "true"]
        ran = subprocess.run(line, env=variables, capture_output=True, text=True)
        self.assertIn("nothing was recorded", ran.stderr)

    def kill(self, job: subprocess.Popen):
        job.kill()
        self.assertEqual(job.wait(), -signal.SIGKILL)
        self.record_nothing()
        # also from a container that numbers processes for itself
        self.record_nothing("unshare", "--user", "--pid", "--fork")

    def test_a_job_whose_command_was_killed(self):
        job = self.start("--armed", f"python looping.py {self.stop}")
        self.wait_for(lambda: list((self.traces / ".etlink").glob("*.armed")))
        (hook,) = self.hooks()
        self.kill(job)
        self.assertEqual(self.hooks(), [hook])
        self.stop.touch()
        out, _ = job.communicate(timeout=60)
        self.assertEqual(out.splitlines()[-1], "done")
        self.assertEqual(self.hooks(), [hook])
        self.record_nothing()
        self.assertEqual(self.hooks(), [])

    def test_a_script_that_has_not_come_to_python(self):
        started = self.folder / "started"
        script = self.script("later.sh", f"touch {started}; until [ -e {self.stop} ]; do sleep 0.05; done\npython -c 'import os; print(os.environ[\"PYTHONPATH\"]); print(os.listdir(os.environ[\"PYTHONPATH\"]))'\n")
        job = self.start("--armed", f"sh {script}")
        self.wait_for(started.exists)
        (hook,) = self.hooks()
        self.kill(job)
        self.stop.touch()
        out, err = job.communicate(timeout=60)
        self.assertEqual(out.splitlines()[:1], [str(hook)], err)
        self.assertIn("'python'", out.splitlines()[1])
        # of another user, or another machine: nobody here knows who holds it
        others = self.folder / "etlink-hook-others"
        others.mkdir()
        (others / "launcher").write_text("another machine")
        self.record_nothing()
        self.assertEqual(self.hooks(), [others])


class Folders(Safety):
    def test_an_earlier_recording_stays_until_there_is_another(self):
        self.record(SCHEDULE, "python train.py 8")
        before = {path.name: path.read_bytes() for path in self.traces.iterdir()}
        ran = self.record(SCHEDULE + " --overwrite", "python no_such_train.py", code=2)
        self.assertIn("the earlier recording in", ran.stderr)
        self.assertEqual({path.name: path.read_bytes() for path in self.traces.iterdir()}, before)
        self.record(SCHEDULE + " --overwrite --gzip", "python train.py 8")
        self.assertEqual(self.left(), ["etlink.json", "kineto_trace_0.json.gz", "torch_et_0.json.gz"])

    def test_what_a_killed_command_leaves_is_put_in_order(self):
        self.record(SCHEDULE, "python train.py 8")
        before = (self.traces / "torch_et_0.json").read_bytes()
        saving = self.folder / "saving"
        process = self.start("--wait 900 --warmup 1 --active 1 --overwrite", f"python slow_disk.py {saving}")
        self.wait_for(lambda: (self.traces / ".etlink" / "old.json").exists())
        self.wait_for(lambda: list((self.traces / ".etlink").glob("*.steps")))
        (report,) = (self.traces / ".etlink").glob("*.steps")
        process.kill()
        # its pipes are the program's too
        os.kill(int(report.name.split(".")[1]), signal.SIGKILL)
        process.communicate()
        self.assertEqual((self.traces / "torch_et_0.json").read_bytes(), before)
        ran = self.record(SCHEDULE, "python train.py 8", code=2)
        self.assertIn("already exists", ran.stderr)
        self.assertEqual(self.left(), ["etlink.json", "kineto_trace_0.json", "torch_et_0.json"])

    def test_a_module_of_the_hooks_name_beside_the_script(self):
        self.script("etlink_torch.py", "print('mine')\n")
        text = "import etlink_torch\n" + (PROGRAMS / "train.py").read_text()
        script = self.script("mine_train.py", text)
        line = f"{CHOSEN.etlink} record {SCHEDULE} -o traces -- python {script} 8"
        variables = environment() | {"PYTHONPATH": ""}
        ran = subprocess.run(line.split(), cwd=self.folder, env=variables, capture_output=True, text=True)
        self.assertEqual(ran.stdout.splitlines()[0], "mine", ran.stderr)
        self.assert_steps(self.manifest()["ranks"][0], (3, 4))

    def test_train_and_eval(self):
        script = self.script("both.sh", f"python {PROGRAMS}/train.py 8 && python {PROGRAMS}/train.py 2\n")
        self.record(SCHEDULE, f"sh {script}")
        script = self.script("both.sh", f"python {PROGRAMS}/train.py 8 && python {PROGRAMS}/train.py 8\n")
        ran = self.record(SCHEDULE + " --overwrite", f"sh {script}")
        self.assertIn("already recorded this rank", ran.stderr)

    def test_tasks_of_slurm_share_a_manifest(self):
        def task(number: int, options: str = "", code: int = 0) -> str:
            slurm = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": str(number)}
            process = self.start(f"{SCHEDULE} --link {options}", "python train.py 8", **slurm)
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, code, err)
            return err

        task(0)
        self.assertNotIn("chakra", self.left())
        task(1, "--overwrite")
        self.assertEqual([rank["rank"] for rank in self.manifest()["ranks"]], [0, 1])
        self.assertEqual(len(list((self.traces / "chakra").glob("*.et"))), 2)
        self.assertIn("task 1 of this job has already recorded", task(1, code=2))

    def test_ranks_of_open_mpi(self):
        """`mpirun etlink record …` and `etlink record -- mpirun …`: the rank is that of MPI."""
        variables = {"OMPI_COMM_WORLD_SIZE": "2", "PMIX_NAMESPACE": "prterun-host-1@1"}
        for number in (0, 1):
            process = self.start(SCHEDULE, "python train.py 8", OMPI_COMM_WORLD_RANK=str(number), **variables)
            _, err = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 0, err)
        manifest = self.manifest()
        self.assertEqual(manifest["job"], "mpi prterun-host-1@1")
        self.assertEqual([(rank["rank"], rank["world"]) for rank in manifest["ranks"]], [(0, 2), (1, 2)])
        script = self.script("mpirun.sh", "".join(
            f"OMPI_COMM_WORLD_RANK={number} OMPI_COMM_WORLD_SIZE=2 python {PROGRAMS}/train.py 8 &\n" for number in (0, 1)
        ) + "wait\n")
        self.record(SCHEDULE + " --overwrite", f"sh {script}")
        self.assertEqual([(rank["rank"], rank["world"]) for rank in self.manifest()["ranks"]], [(0, 2), (1, 2)])

    def test_the_cost_is_said(self):
        self.record(SCHEDULE, "python train.py 40")
        times = self.manifest()["ranks"][0]["step_times"]
        self.assertEqual((times["plain_steps"], times["recorded_steps"]), (36, 2))
        self.assertGreater(times["recorded_ns"], times["plain_ns"])
        link = [CHOSEN.etlink, "link", "--host", str(self.traces / "torch_et_0.json"), "--device", str(self.traces / "kineto_trace_0.json")]
        manifest = self.manifest()
        for ratio, is_said in ((6, True), (1.2, False)):
            manifest["ranks"][0]["step_times"]["recorded_ns"] = int(ratio * times["plain_ns"])
            (self.traces / "etlink.json").write_text(json.dumps(manifest))
            merge = [CHOSEN.etlink, "merge", str(self.traces), "-o", str(self.folder / "linked"), "--overwrite"]
            for line in (link, merge):
                said = subprocess.run(line, capture_output=True, text=True, check=True).stderr
                self.assertEqual("recorded steps took 6.0 x the time of other steps" in said, is_said, said)
        # an analysis compares the steps of the trace with those of the manifest, and gives times without the cost
        manifest["ranks"][0]["step_times"]["plain_ns"] = 1_000
        (self.traces / "etlink.json").write_text(json.dumps(manifest))
        analyze = [CHOSEN.etlink, "analyze", str(self.traces)]
        said = subprocess.run(analyze, capture_output=True, text=True, check=True).stderr
        self.assertIn("recording slowed the host by", said)

    def test_no_cycle_over_the_size(self):
        self.record("--wait 0 --warmup 1 --active 1 --repeat 0 --max-size 1MB", "python train.py 60")
        (rank,) = self.manifest()["ranks"]
        size = sum(path.stat().st_size for path in self.traces.rglob("*_0.json"))
        self.assertLess(size, 1_000_000)
        self.assertGreater(len(rank["cycles"]), 1)
        self.assertTrue(any("one more cycle would exceed --max-size" in note for note in rank["notes"]), rank["notes"])


LONGEST = ("test_every_call_of_the_hook_may_fail",)

if __name__ == "__main__":
    test_torch.main(LONGEST)
