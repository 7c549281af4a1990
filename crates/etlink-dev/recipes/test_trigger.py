"""`etlink trigger`: running jobs record their next steps, all ranks the same ones, and are as before otherwise.

    python3 crates/etlink-dev/recipes/test_trigger.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch` with the others (suites.py).
"""

import concurrent.futures
import fcntl
import functools
import json
import os
import signal
import socket
import subprocess
import threading
import time
import unittest
from pathlib import Path

import test_torch
from test_safety import Safety
from test_torch import CHOSEN, PACKAGE, PROGRAMS, environment, load


class Jobs(Safety):
    """Programs that run until they are told to stop."""

    def setUp(self):
        super().setUp()
        self.stop = self.folder / "stop"

    def start_job(self, options: str, command: str, ranks: int = 1, **more) -> subprocess.Popen:
        job = self.start(f"--armed {options}", command, **more)
        self.addCleanup(self.end_job, job)
        self.wait_for_steps(job, ranks)
        return job

    def stand(self) -> subprocess.Popen:
        """A job that makes no further step, so that no request of it is agreed on."""
        script = self.script("stands.py", (PROGRAMS / "train.py").read_text() + f"import os, time\nwhile not os.path.exists({str(self.stop)!r}): time.sleep(0.01)\n")
        job = self.start("--armed", f"python {script} 30")
        self.addCleanup(self.end_job, job)
        self.wait_for(lambda: list((self.traces / ".etlink").glob("*.armed")))
        return job

    def wait_for_steps(self, job: subprocess.Popen, ranks: int):
        """Until each rank has made some steps."""
        work = self.traces / ".etlink"

        def is_running():
            self.assertIsNone(job.poll(), "the job has ended")
            counts = [path.read_text() for path in work.glob("*.steps")] if work.exists() else []
            statuses = list(work.glob("*.armed")) if work.exists() else []
            return len(statuses) >= ranks and sum(int(count or 0) >= 25 for count in counts) >= ranks

        self.wait_for(is_running)

    def end_job(self, job: subprocess.Popen) -> tuple[str, str]:
        """Lets it end as it does by itself; what it printed."""
        self.stop.touch()
        if job.stdout.closed:
            return "", ""
        return job.communicate(timeout=300)

    def trigger(self, *words: str, code: int = 0) -> subprocess.CompletedProcess:
        line = [CHOSEN.etlink, "trigger", *map(str, words)]
        ran = subprocess.run(line, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertEqual(ran.returncode, code, ran.stdout + ran.stderr)
        return ran

    def triggered(self, *words: str, code: int = 0) -> dict:
        return json.loads(self.trigger(*words, "--json", code=code).stdout)

    def iterations(self, folder: Path, rank: int) -> tuple[list[str], list[str]]:
        """The program's own names of its iterations in both traces of a rank."""
        host = [node["name"] for node in load(folder / f"torch_et_{rank}.json")["nodes"]]
        device = load(folder / f"kineto_trace_{rank}.json")["traceEvents"]
        device = [event["name"] for event in device if event.get("cat") == "user_annotation"]
        return tuple(sorted({name for name in names if name.startswith("iteration ")}) for names in (host, device))

    def assert_same_iterations(self, folder: Path, ranks: int, steps: int):
        """The traces of all ranks are of the same iterations, by the program's own count."""
        wanted = self.iterations(folder, 0)[0]
        self.assertEqual(len(wanted), steps)
        for rank in range(ranks):
            self.assertEqual(self.iterations(folder, rank), (wanted, wanted))

    def pids(self) -> dict[int, int]:
        """Of the ranks that are armed."""
        statuses = [json.loads(path.read_text()) for path in (self.traces / ".etlink").glob("*.armed")]
        return {status["rank"]: status["pid"] for status in statuses}


class Triggered(Jobs):
    def test_a_request_before_the_job(self):
        """With --timeout a request waits for the folder, too."""
        line = [CHOSEN.etlink, "trigger", str(self.traces), "--timeout", "300", "--json"]
        asked = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asked.kill)
        self.assertIn("waiting for the job", asked.stderr.readline())
        job = self.start_job("", f"python looping.py {self.stop}")
        out, err = asked.communicate(timeout=300)
        self.assertEqual(asked.returncode, 0, err)
        self.assert_same_iterations(Path(json.loads(out)["recording"]), 1, 2)
        self.end_job(job)

    def test_four_ranks_record_the_same_steps(self):
        job = self.start_job("", f"torchrun --nproc-per-node 4 looping.py {self.stop} ddp", ranks=4)
        by_folder = self.triggered(self.traces, "--steps", "3")
        by_rank = self.triggered(self.pids()[2])
        by_launcher = self.triggered(job.pid, "--for", "0.2")
        for found, steps in ((by_folder, 3), (by_rank, 2), (by_launcher, None)):
            ranks = found["ranks"]
            self.assertEqual([(rank["rank"], rank["why"]) for rank in ranks], [(0, None), (1, None), (2, None), (3, None)])
            ends = {(rank["first_step"], rank["last_step"]) for rank in ranks}
            ((first, last),) = ends
            self.assertEqual(Path(found["recording"]), self.traces / f"cycle_{first}")
            self.assert_same_iterations(self.traces / f"cycle_{first}", 4, steps or last - first + 1)
            merge = [CHOSEN.etlink, "merge", found["recording"], "-o", str(self.folder / f"linked_{first}"), "--json"]
            merged = json.loads(subprocess.run(merge, capture_output=True, text=True, check=True).stdout)
            self.assertEqual(len(merged["ranks"]), 4)
        out, err = self.end_job(job)
        self.assertEqual((out.count("done"), job.returncode), (4, 0), (out, err))
        manifest = self.manifest()
        for rank in manifest["ranks"]:
            self.assert_steps(rank, *[(f["ranks"][0]["first_step"], f["ranks"][0]["last_step"]) for f in (by_folder, by_rank, by_launcher)])
            self.assertEqual(rank["notes"], [])
        self.assertEqual([note for note in manifest["notes"] if "step" in note], [])

    def test_one_rank_begins_with_its_next_steps(self):
        """Also where most steps are much shorter than the time in which it makes them, as those of a server that waits."""
        text = (PROGRAMS / "looping.py").read_text()
        bursts = text.replace("1000 * pause if os.path.exists(stop + \".slow\") and made % 50 == 0 else pause", "0.4 if made % 20 == 0 else 0")
        self.assertNotEqual(bursts, text)
        job = self.start_job("", f"python {self.script('bursts.py', bursts)} {self.stop}")
        begun = time.monotonic()
        found = self.triggered(self.traces, "--steps", "3")
        seconds = time.monotonic() - begun
        self.end_job(job)
        self.assert_same_iterations(Path(found["recording"]), 1, 3)
        # some 500 steps ahead they were not made before 10 s had passed
        self.assertLess(seconds, 6)

    def test_a_job_that_has_made_no_step_yet(self):
        """It is waited for with --timeout, and refused without."""
        ready = self.folder / "ready"
        wait = f"import os, time\nwhile not os.path.exists({str(ready)!r}): time.sleep(0.01)\n"
        script = self.script("waits.py", (PROGRAMS / "looping.py").read_text().replace("made = 0\n", "made = 0\n" + wait))
        job = self.start("--armed", f"torchrun --nproc-per-node 2 {script} {self.stop} ddp")
        self.addCleanup(self.end_job, job)
        self.addCleanup(ready.touch)
        self.wait_for((self.traces / ".etlink").exists)
        for words in ((), ("--timeout", "1")):
            refused = self.trigger(self.traces, *words, code=2).stderr
            self.assertIn("none of its processes has", refused)
            self.assertIn("wait with --timeout", refused)
        line = [CHOSEN.etlink, "trigger", str(self.traces), "--timeout", "120", "--json"]
        waiting = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: len(list((self.traces / ".etlink").glob("*.json"))) >= 2)
        self.assertIsNone(waiting.poll())
        self.assertFalse((self.traces / ".etlink/trigger.json").exists())
        ready.touch()
        out, err = waiting.communicate(timeout=300)
        self.assertEqual(waiting.returncode, 0, out + err)
        self.assertIn("no process of the job has made a step yet; waiting for the first step", err)
        self.assertEqual([rank["why"] for rank in json.loads(out)["ranks"]], [None, None])
        self.assert_same_iterations(Path(json.loads(out)["recording"]), 2, 2)
        self.end_job(job)

    def test_ranks_that_die_are_named(self):
        ranks = "".join(f"RANK={rank} python {PROGRAMS}/looping.py {self.stop} 0.02 &\n" for rank in range(3))
        script = self.script("ranks.sh", f"export WORLD_SIZE=3 LOCAL_WORLD_SIZE=3\n{ranks}wait\n")
        job = self.start_job("", f"sh {script}", ranks=3)
        pids = self.pids()
        os.kill(pids[1], signal.SIGKILL)
        self.wait_for(lambda: b"State:\tZ" in Path(f"/proc/{pids[1]}/status").read_bytes() if Path(f"/proc/{pids[1]}").exists() else True)
        found = self.triggered(self.traces, code=1)
        whys = [rank["why"] for rank in found["ranks"]]
        self.assertEqual(whys, [None, "the process has died", None])
        self.assert_same_iterations_of(Path(found["recording"]), (0, 2))
        # one dies while the others record
        waiting = subprocess.Popen([CHOSEN.etlink, "trigger", str(self.traces), "--steps", "100"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: list((self.traces / ".etlink").glob(f"*.{pids[2]}.host.json")))
        os.kill(pids[2], signal.SIGKILL)
        refused = self.trigger(self.traces, code=2)
        self.assertIn("another recording of this job is in progress, requested", refused.stderr)
        out, err = waiting.communicate(timeout=300)
        self.assertEqual(waiting.returncode, 1, err)
        self.assertRegex(out, r"recorded steps \d+-\d+ of 1 rank: ")
        self.assertRegex(out, rf"not recorded: rank 2 \(process {pids[2]} on .*\): the process has died\n")
        _, err = self.end_job(job)
        self.assertEqual(job.returncode, 1, err)
        self.assertRegex(err, r"rank 2: died in or after step \d+ during recording")

    def assert_same_iterations_of(self, folder: Path, ranks: tuple[int, ...]):
        """Ranks that do not wait for each other record the same numbers of steps."""
        for rank in ranks:
            self.assertEqual(self.iterations(folder, rank), self.iterations(folder, ranks[0]))

    def test_a_signal_and_a_file(self):
        job = self.start_job("--steps 1", f"python looping.py {self.stop}")
        pid = self.pids()[0]
        os.kill(pid, signal.SIGUSR2)
        self.wait_for(lambda: len(list(self.traces.glob("cycle_*/*_0.json"))) == 2)
        self.wait_for(lambda: not (self.traces / ".etlink/trigger.json").exists())
        (self.traces / ".etlink/trigger.json").touch()
        self.wait_for(lambda: len(list(self.traces.glob("cycle_*/*_0.json"))) == 4)
        _, err = self.end_job(job)
        self.assertEqual(job.returncode, 3)
        self.assertRegex(err, r"recorded 1 rank, 2 recordings, 2 steps between step \d+ and \d+ \(")
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([asked["by"] for asked in rank["asked"]], ["a signal", "a file"])
        self.assertEqual({cycle["last_step"] - cycle["first_step"] for cycle in rank["cycles"]}, {0})

    def test_a_signal_and_a_file_while_a_recording_is_under_way(self):
        job = self.start_job("--steps 400", f"python looping.py {self.stop}")
        request, plan = (self.traces / ".etlink" / name for name in ("trigger.json", "plan.json"))
        request.touch()
        self.wait_for(plan.exists)
        first = json.loads(plan.read_text())["first"]
        request.touch()
        # the recording is that of the first touch: it is not taken back
        late = self.trigger(self.traces, "--cancel", code=1)
        self.assertIn(f"too late: the ranks have agreed to record from step {first} on", late.stdout)
        os.kill(self.pids()[0], signal.SIGUSR2)
        refused = self.trigger(self.traces, code=2)
        self.assertRegex(refused.stderr, rf"in progress, requested \d+ s ago, from step {first} on; wait")
        self.wait_for(lambda: self.asked_by("a signal"))
        self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([(asked["by"], asked["why"]) for asked in rank["asked"]], [("a file", None), ("a signal", None)])
        self.assertEqual(rank["asked"][0]["first_step"], first)

    def test_a_recording_that_is_stopped(self):
        """All ranks end it with the same step, and what is recorded is kept."""
        job = self.start_job("", f"torchrun --nproc-per-node 2 looping.py {self.stop} ddp", ranks=2)
        line = [CHOSEN.etlink, "trigger", str(self.traces), "--steps", "100000", "--json"]
        waiting = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: len(list((self.traces / ".etlink").glob("*.host.json"))) == 2)
        said = self.trigger(self.traces, "--stop").stdout
        self.assertRegex(said, r"the recording of `etlink trigger`, requested \d+ s ago, from step \d+ on, ends now")
        out, err = waiting.communicate(timeout=120)
        self.assertEqual(waiting.returncode, 0, err)
        first, second = json.loads(out)["ranks"]
        steps = first["last_step"] - first["first_step"] + 1
        self.assertEqual((first["first_step"], first["last_step"]), (second["first_step"], second["last_step"]))
        self.assertTrue(0 < steps < 100000, steps)
        self.assert_same_iterations(Path(json.loads(out)["recording"]), 2, steps)
        self.assertIn("no recording is in progress", self.trigger(self.traces, "--stop", code=2).stderr)
        # the next one has its length again
        found = self.triggered(self.traces, "--steps", "3")
        self.assert_same_iterations(Path(found["recording"]), 2, 3)
        self.end_job(job)

    def test_ranks_that_do_not_wait_for_each_other_end_with_the_same_step(self):
        paces = {0: 0.02, 1: 0.012}
        ranks = "".join(f"RANK={rank} python {PROGRAMS}/looping.py {self.stop} {pace} &\n" for rank, pace in paces.items())
        script = self.script("ranks.sh", f"export WORLD_SIZE=2 LOCAL_WORLD_SIZE=2\n{ranks}wait\n")
        self.start_job("", f"sh {script}", ranks=2)
        line = [CHOSEN.etlink, "trigger", str(self.traces), "--steps", "100000", "--json"]
        waiting = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: len(list((self.traces / ".etlink").glob("*.host.json"))) == 2)
        self.trigger(self.traces, "--stop")
        out, err = waiting.communicate(timeout=120)
        self.assertEqual(waiting.returncode, 0, err)
        first, second = json.loads(out)["ranks"]
        self.assertEqual((first["first_step"], first["last_step"]), (second["first_step"], second["last_step"]))
        found = self.triggered(self.traces, "--for", "1")
        self.assertEqual(len({(rank["first_step"], rank["last_step"]) for rank in found["ranks"]}), 1, found)

    def test_a_file_system_without_links(self):
        refuse = "import os\ndef refuse(*_, **__): raise PermissionError(1, 'Operation not permitted')\nos.link = refuse\n"
        script = self.script("no_links.py", refuse + (PROGRAMS / "looping.py").read_text())
        job = self.start_job("--steps 1", f"python {script} {self.stop}")
        found = self.triggered(self.traces)
        self.assert_same_iterations(Path(found["recording"]), 1, 1)
        os.kill(self.pids()[0], signal.SIGUSR2)
        self.wait_for(lambda: self.asked_by("a signal"))
        _, err = self.end_job(job)
        self.assertEqual(job.returncode, 3, err)

    def test_a_signal_that_the_program_has_a_use_for(self):
        text = (PROGRAMS / "looping.py").read_text()
        for how in (
            "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: print('mine', flush=True))\n",
            "import faulthandler, signal, sys\nfaulthandler.register(signal.SIGUSR2, file=sys.stdout)\n",
            # after the hook has come, and as Lightning looks
            "import torch, faulthandler, signal, sys\nfaulthandler.register(signal.SIGUSR2, file=sys.stdout)\n",
            "import torch, signal\nif signal.getsignal(signal.SIGUSR2) in (None, signal.SIG_DFL):\n    signal.signal(signal.SIGUSR2, lambda *_: print('mine', flush=True))\n",
        ):
            with self.subTest(how):
                self.stop.unlink(missing_ok=True)
                script = self.script("handles.py", how + text)
                job = self.start_job("--overwrite", f"python {script} {self.stop}")
                (status,) = (self.traces / ".etlink").glob("*.armed")
                self.assertIsNone(json.loads(status.read_text())["signal"])
                os.kill(self.pids()[0], signal.SIGUSR2)
                self.triggered(self.traces)
                out, err = self.end_job(job)
                self.assertRegex(out, "mine|most recent call first", err)
                (rank,) = self.manifest()["ranks"]
                self.assertEqual(([asked["by"] for asked in rank["asked"]], job.returncode), (["etlink trigger"], 3))

    def test_every_so_many_steps_and_slow_ones_of_which_the_last_are_kept(self):
        options = "--every 100 --steps 2 --keep 2 --when"
        # no busy machine makes a step so slow, which would take the place of a hundredth one
        words = [CHOSEN.etlink, "record", "--armed", *options.split(), "step_time > 200 x median", "-o", str(self.traces), "--"]
        command = [*words, "python", str(PROGRAMS / "looping.py"), str(self.stop)]
        variables = environment() | {"PYTHONPATH": ""}
        job = subprocess.Popen(command, cwd=self.folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        mine = self.traces / "cycle_7"
        self.wait_for(lambda: self.traces.exists())
        # no recording of this job
        mine.mkdir()
        (mine / "torch_et_0.json").write_text("mine")
        self.wait_for(lambda: (self.traces / "cycle_400").exists() and list((self.traces / "cycle_400").iterdir()))
        Path(f"{self.stop}.slow").touch()
        self.wait_for(lambda: self.asked_by("--when"))
        _, err = self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        every = [asked["first_step"] for asked in rank["asked"] if asked["by"] == "--every"]
        self.assertEqual(every[:4], [100, 200, 300, 400], err)
        self.assertEqual([asked["why"] for asked in rank["asked"] if asked["why"]], [])
        self.assertEqual(len(rank["cycles"]), 2)
        for cycle in rank["cycles"]:
            self.assert_pair(cycle)
        kept = {Path(cycle["host_trace"]).parent.name for cycle in rank["cycles"]}
        self.assertEqual({path.name for path in self.traces.glob("cycle_*")}, kept | {"cycle_7"})
        self.assertEqual((mine / "torch_et_0.json").read_text(), "mine")

    def test_a_recording_that_the_end_cuts_pushes_out_no_whole_one(self):
        """Step 30 would be the first of the next recording, and the program ends after step 29."""
        self.record("--armed --every 10 --steps 1 --keep 2", "python train.py 30")
        (rank,) = self.manifest()["ranks"]
        whole = [cycle["first_step"] for cycle in rank["cycles"] if cycle["whole"]]
        self.assertEqual(whole, [10, 20])
        for cycle in rank["cycles"]:
            self.assertTrue((self.traces / cycle["device_trace"]).exists())

    def asked_by(self, who: str) -> bool:
        found = [json.loads(path.read_text()) for path in (self.traces / ".etlink").glob("*.armed")]
        return any(asked["by"] == who for status in found for asked in status["asked"])

    def test_nothing_is_asked_for(self):
        """Nothing of ours is left, and that is no mistake."""
        ran = self.record("--armed", "python train.py 8")
        self.assertRegex(ran.stdout, r"\Aloss \d\.\d+\n\Z")
        self.assertIn("the program was armed, but no recording was requested", ran.stderr)
        self.assertEqual(self.left(), ["etlink.json"])
        self.assertIn("made no step", self.record("--armed --overwrite", "python inference.py", code=1).stderr)

    def test_a_program_that_ends_before(self):
        job = self.start_job("", f"python looping.py {self.stop} 0.05")
        waiting = subprocess.Popen([CHOSEN.etlink, "trigger", str(self.traces), "--steps", "9000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: (self.traces / ".etlink/plan.json").exists())
        self.end_job(job)
        out, err = waiting.communicate(timeout=300)
        # as far as it went, or not at all: the traces decide
        recorded = list(self.traces.glob("cycle_*/*_0.json"))
        self.assertEqual((waiting.returncode, len(recorded)), (0, 2) if recorded else (1, 0), out + err)
        self.assertRegex(out, r"recorded steps \d+" if recorded else r"the program ended after|the recording ended before its first step")

    def test_a_signal_that_ends_it_while_it_saves(self):
        """As torchrun sends one when another rank has died: the recording is whole."""
        saving = self.folder / "saving"
        job = self.start_job("", f"python slow_disk.py {saving}")
        line = [CHOSEN.etlink, "trigger", str(self.traces), "--steps", "3"]
        waiting = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(saving.exists)
        os.kill(self.pids()[0], signal.SIGTERM)
        out, err = waiting.communicate(timeout=300)
        self.assertEqual(waiting.returncode, 0, err)
        _, err = job.communicate(timeout=300)
        (rank,) = self.manifest()["ranks"]
        (cycle,), (asked,) = rank["cycles"], rank["asked"]
        self.assertTrue(cycle["whole"])
        self.assertEqual(asked["last_step"], cycle["last_step"], asked)
        self.assertNotIn("nothing was recorded", err)
        self.assertRegex(out, rf"recorded steps \d+-{cycle['last_step']} of 1 rank")

    def test_a_program_that_ends_as_it_is_asked(self):
        """It looks four times a second, and may see the request or not."""
        job = self.start_job("", f"python looping.py {self.stop} 0.05")
        waiting = subprocess.Popen([CHOSEN.etlink, "trigger", str(self.traces)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: (self.traces / ".etlink/trigger.json").exists())
        self.end_job(job)
        out, err = waiting.communicate(timeout=300)
        recorded = list(self.traces.glob("cycle_*/*_0.json"))
        self.assertEqual(waiting.returncode, 0 if recorded else 1, out + err)
        self.assertIn("rank 0", out)

    def test_a_recording_that_is_not_waited_for(self):
        job = self.start_job("", f"python looping.py {self.stop} 0.05")
        ran = self.trigger(self.traces, "--steps", "9000", "--timeout", "10", code=1)
        self.assertRegex(ran.stdout, r"still recording: rank 0 .*: since step \d+; the command did not wait for the end")
        self.end_job(job)
        (asked,) = self.manifest()["ranks"][0]["asked"]
        self.assertIn(f"since step {asked['first_step']};", ran.stdout)
        self.assertIsNotNone(asked["last_step"], asked)


def is_locked(path: Path) -> bool:
    with path.open() as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


class Serving(Jobs):
    """An asyncio server without an optimizer; its clients are in this process."""

    def serve(self, *options: str) -> tuple[subprocess.Popen, int]:
        port = self.folder / "port"
        port.unlink(missing_ok=True)
        job = self.start(" ".join(("--armed --overwrite", *options)), f"python serving.py {port}")
        self.addCleanup(job.kill)
        self.wait_for(lambda: port.exists() and port.read_text().endswith("\n"))
        return job, int(port.read_text())

    def ask(self, port: int, requests: list[int]) -> list[str]:
        """The answers to requests that are sent one after the other."""
        with socket.create_connection(("127.0.0.1", port)) as connection, connection.makefile("rw") as stream:
            answers = []
            for request in requests:
                stream.write(f"{request}\n")
                stream.flush()
                answers.append(stream.readline())
        return answers

    def load(self, port: int, trigger: list[str]) -> dict:
        """Four clients that ask until the recording is there; each gets its own answers, as an idle server gives them."""
        asked, wanted = range(50), self.ask(port, list(range(50)))
        # a rank can be asked when its thread has looked for the first time
        self.wait_for(lambda: list((self.traces / ".etlink").glob("*.armed")))
        over = threading.Event()

        def client() -> list[list[str]]:
            answers = [self.ask(port, asked)]
            while not over.is_set():
                answers.append(self.ask(port, asked))
            return answers

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            clients = [pool.submit(client) for _ in range(4)]
            try:
                found = self.triggered(self.traces, "--timeout", "60", *trigger)
            finally:
                over.set()
            for one in clients:
                for answers in one.result(60):
                    self.assertEqual(answers, wanted)
        return found

    def end(self, job: subprocess.Popen, port: int):
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"stop\n")
        out, err = job.communicate(timeout=300)
        self.assertEqual((out, job.returncode), ("served\n", 4), err)

    def test_a_server_under_load(self):
        for step_on, trigger, name in (
            ("annotation:execute_model", ("--for", "0.3"), "execute_model"),
            ("annotation:request", ("--steps", "30"), "request"),
        ):
            with self.subTest(step_on):
                job, port = self.serve("--step-on", step_on)
                found = self.load(port, list(trigger))
                self.end(job, port)
                (rank,) = found["ranks"]
                steps = rank["last_step"] - rank["first_step"] + 1
                (cycle,) = self.manifest()["ranks"][0]["cycles"]
                self.assert_pair(cycle)
                if trigger[0] == "--steps":
                    self.assertEqual(steps, int(trigger[1]))
                else:
                    seconds = (cycle["end"]["unix_ns"] - cycle["begin"]["unix_ns"]) / 1e9
                    self.assertTrue(0.25 < seconds < 3, seconds)
                ranges = [event["name"] for event in load(self.traces / cycle["device_trace"])["traceEvents"] if event.get("cat") == "user_annotation"]
                # of requests some were open when the recording began
                counted = ranges.count(name)
                self.assertTrue(name is None or (counted == steps if name == "execute_model" else counted > 0), (counted, steps))


class InScripts(Jobs):
    def start_script(self, before: str, program: str = "looping.py") -> subprocess.Popen:
        """A program with lines before it."""
        script = self.script("arms.py", before + (PROGRAMS / program).read_text())
        job = subprocess.Popen(["python", script, self.stop], cwd=self.folder, env=self.with_package(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        return job

    def run_script(self, text: str) -> subprocess.CompletedProcess:
        script = self.script("arms.py", text)
        return subprocess.run(["python", script], cwd=self.folder, env=self.with_package(), capture_output=True, text=True, timeout=300)

    @staticmethod
    def with_package() -> dict[str, str]:
        return environment() | {"PYTHONPATH": str(PACKAGE)}

    def test_what_a_killed_job_has_left(self):
        """A request, a plan and ranks of it are nothing to the next one; containers number processes from 1 again."""
        work = self.traces / ".etlink"
        work.mkdir(parents=True)
        status = {"rank": 1, "world": 2, "local_world": 2, "host": "other", "pid": 7, "excluded": False, "ended": False}
        status |= {"answer": None, "first": None, "asked": [], "signal": None}
        for name, text in (
            ("trigger.json", json.dumps({"id": "old", "steps": 7})),
            ("plan.json", json.dumps({"id": "old", "by": "a file", "first": 9, "warmup": 1, "steps": 7, "seconds": None})),
            ("other.7.armed", json.dumps(status)),
            ("other.7.alive", ""),
            ("other.7.steps", "30"),
            ("rank_0", "other.7"),
        ):
            (work / name).write_text(text)
        own = "import os, socket\nopen({!r}, 'w').write(socket.gethostname() + '.' + str(os.getpid()))\n"
        job = self.start_script(f"from etlink_torch import arm\narm({str(self.traces)!r}, steps=3)\n" + own.format(str(work / "rank_0")))
        self.wait_for(lambda: not (work / "other.7.armed").exists())
        self.wait_for_steps(job, 1)
        found = self.triggered(self.traces)
        self.assertEqual([(rank["rank"], rank["why"]) for rank in found["ranks"]], [(0, None)])
        self.assert_same_iterations(Path(found["recording"]), 1, 3)
        self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual(([asked["by"] for asked in rank["asked"]], rank["notes"]), (["etlink trigger"], []))
        self.assertEqual(self.left(), [Path(found["recording"]).name, "etlink.json"])

    def test_a_signal_where_another_thread_makes_the_steps(self):
        """And one before the first step."""
        ahead = "import os, signal\nos.kill(os.getpid(), signal.SIGUSR2)\n"
        runs = f"import runpy, sys, threading\nsteps = threading.Thread(target=runpy.run_path, args=({str(PROGRAMS / 'looping.py')!r},))\n"
        thread = ahead + runs + "steps.start()\nsteps.join()\n"
        script = self.script("thread.py", f"from etlink_torch import arm\narm({str(self.traces)!r})\n" + thread)
        job = subprocess.Popen(["python", script, self.stop], env=self.with_package(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        self.wait_for_steps(job, 1)
        self.wait_for(lambda: self.asked_in_status() == ["a signal"])
        os.kill(job.pid, signal.SIGUSR2)
        self.wait_for(lambda: self.asked_in_status() == ["a signal", "a signal"])
        self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["notes"], len(rank["cycles"]), job.returncode), ([], 2, 3))

    def asked_in_status(self) -> list[str]:
        (path,) = (self.traces / ".etlink").glob("*.armed")
        return [asked["by"] for asked in json.loads(path.read_text())["asked"]]

    def test_a_forked_child_of_multiprocessing(self):
        train = f"import runpy, sys\n    sys.argv = ['train.py', '10']\n    runpy.run_path({str(PROGRAMS / 'train.py')!r})"
        child = f"def work():\n    from etlink_torch import arm\n    arm({str(self.traces)!r}, every=4, steps=1)\n    {train}\n"
        ran = self.run_script("import multiprocessing\n" + child + "multiprocessing.get_context('fork').Process(target=work).start()\n")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(self.left(), ["cycle_4", "cycle_8", "etlink.json"])
        self.assert_steps(self.manifest()["ranks"][0], (4, 4), (8, 8))

    def test_an_arm_that_fails_and_one_too_many(self):
        text = "import os\nfrom etlink_torch import arm, at_end\nfor words in (dict(step_on='nonsense'), {}, {}):\n"
        text += "    print(arm('traces', **words).notes, os.path.exists('traces'), flush=True)\ndef interrupt(): raise KeyboardInterrupt\nat_end.ACTIONS.append(interrupt)\nos._exit(5)\n"
        ran = self.run_script(text)
        failed, armed, second = ran.stdout.splitlines()
        self.assertRegex(failed, "nonsense.* False")
        self.assertEqual(armed, "[] True")
        self.assertIn("another `arm` is already open", second)
        # whatever is raised at the end
        self.assertEqual(ran.returncode, 5)

    def test_a_program_that_copies_its_folder(self):
        """Which ends the locks of POSIX that the process has."""
        copy = f"import os, shutil\nif made == 30: shutil.copytree({str(self.traces)!r}, 'copy'); open('copied', 'w')\n"
        text = (PROGRAMS / "looping.py").read_text().replace("    made += 1\n", "    made += 1\n" + "".join(f"    {line}\n" for line in copy.splitlines()))
        script = self.script("copies.py", text)
        job = self.start_job("", f"python {script} {self.stop}")
        self.wait_for((self.folder / "copied").exists)
        (alive,) = (self.traces / ".etlink").glob("*.alive")
        self.wait_for(lambda: is_locked(alive), seconds=20)
        self.triggered(self.traces)
        self.end_job(job)

    def test_one_line_in_a_script(self):
        text = f"from etlink_torch import arm\narmed = arm({str(self.traces)!r}, steps=3)\n"
        script = self.script("arms.py", text + (PROGRAMS / "looping.py").read_text())
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        job = subprocess.Popen([CHOSEN.python, script, self.stop], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        self.wait_for_steps(job, 1)
        found = self.triggered(job.pid)
        self.assert_same_iterations(Path(found["recording"]), 1, 3)
        out, _ = self.end_job(job)
        self.assertEqual((out.splitlines()[-1], job.returncode), ("done", 3))

    def test_the_manifest_of_a_script_that_ends(self):
        text = f"from etlink_torch import arm\narm({str(self.traces)!r}, every=4, steps=1, gzip=True)\n"
        script = self.script("arms.py", text + (PROGRAMS / "train.py").read_text())
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        subprocess.run([CHOSEN.python, script, "10"], env=variables, check=True, capture_output=True)
        manifest = self.manifest()
        (rank,) = manifest["ranks"]
        self.assert_steps(rank, (4, 4), (8, 8))
        self.assertEqual((self.left(), manifest["armed"]["every"]), (["cycle_4", "cycle_8", "etlink.json"], 4))
        again = subprocess.run(["python", script, "10"], env=variables, capture_output=True, text=True)
        self.assertRegex(again.stderr, "FileExistsError: .*already exists")

    def test_what_cannot_be_meant(self):
        for arguments, message in (
            ("every=3", "every is 3, but must exceed"),
            ("when='step_time > 3'", "use `step_time > 1.5 x median`"),
            ("signal='SIGTERM'", "use SIGUSR1, SIGUSR2 or None"),
            ("steps=0", "steps is 0, needs to be at least 1"),
            ("interleave=True", "no option interleave"),
        ):
            code = f"from etlink_torch import arm; arm('x', {arguments})"
            variables = environment() | {"PYTHONPATH": str(PACKAGE)}
            ran = subprocess.run(["python", "-c", code], cwd=self.folder, env=variables, capture_output=True, text=True)
            self.assertIn(message, ran.stderr)
        self.assertFalse((self.folder / "x").exists())


class StartedAgain(Jobs):
    """Programs of one job that count their steps from 0 once more."""

    def test_a_program_after_the_other(self):
        train = f"python {PROGRAMS}/train.py 6"
        script = self.script("both.sh", f"{train} && {train}\n")
        self.record("--armed --every 4 --steps 1", f"sh {script}")
        # numbers of processes may begin again
        first, second = sorted(self.manifest()["ranks"], key=lambda rank: rank["cycles"][0]["begin"]["unix_ns"])
        self.assertEqual([first["asked"][0]["folder"], second["asked"][0]["folder"]], ["cycle_4", "cycle_5"])
        self.assert_steps(first, (4, 4))
        self.assert_steps(second, (4, 4))
        self.assertEqual(self.left(), ["cycle_4", "cycle_5", "etlink.json"])

    def test_ranks_of_torchrun(self):
        """One of them fell before it had recorded: both record into one folder afterwards."""
        text = (PROGRAMS / "train.py").read_text()
        text = text.replace("import os\n", "import os\nimport time\n", 1).replace(
            "    train_step()\n",
            "    is_first = os.environ['TORCHELASTIC_RESTART_COUNT'] == '0'\n"
            "    while is_first and step == 2 and os.environ['RANK'] == '1':\n"
            f"        if os.path.exists({str(self.traces)!r} + '/cycle_4/kineto_trace_0.json'): sys.exit(7)\n"
            "        time.sleep(0.02)\n"
            "    while is_first and step == 5: time.sleep(1)\n"
            "    train_step()\n",
        )
        script = self.script("falls.py", text)
        command = f"torchrun --standalone --nproc-per-node 2 --max-restarts 1 {script} 6"
        self.record("--armed --every 4 --steps 1", command)
        ranks = self.manifest()["ranks"]
        recorded = [(rank["rank"], cycle["host_trace"]) for rank in ranks for cycle in rank["cycles"]]
        self.assertEqual(sorted(recorded), [
            (0, "cycle_4/torch_et_0.json"), (0, "cycle_5/torch_et_0.json"), (1, "cycle_5/torch_et_1.json"),
        ])


class OwnProfiler(Jobs):
    """The program's own profiler comes first, and afterwards recordings may be asked for again."""

    SWITCHED = """
    if os.path.exists(stop + ".profile") != (own is not None):
        if own is None:
            own = torch.profiler.profile(schedule=lambda _: torch.profiler.ProfilerAction.RECORD)
            own.start()
        else:
            own.stop()
            own.export_chrome_trace(stop + ".own.json")
            own = None
        open(stop + ".switched", "w").close()
    if own is not None:
        own.step()
"""

    def program(self) -> str:
        text = (PROGRAMS / "looping.py").read_text()
        return text.replace("made = 0\n", "made, own = 0, None\n").replace("    made += 1\n", "    made += 1" + self.SWITCHED)

    def switch(self):
        """Has the program start or stop its profiler."""
        switched, chosen = Path(f"{self.stop}.switched"), Path(f"{self.stop}.profile")
        switched.unlink(missing_ok=True)
        if chosen.exists():
            chosen.unlink()
        else:
            chosen.touch()
        self.wait_for(switched.exists)

    def ask_around(self) -> tuple[dict, list[str]]:
        """Before the program's profiler, while it runs, and after it; the program's trace, and why nothing was recorded."""
        self.triggered(self.traces)
        self.switch()
        (refused,) = self.triggered(self.traces, code=1)["ranks"]
        (counter,) = (self.traces / ".etlink").glob("*.steps")
        begun = int(counter.read_text())
        self.wait_for(lambda: int(counter.read_text()) > begun + 30)
        self.switch()
        theirs = load(Path(f"{self.stop}.own.json"))
        found = self.triggered(self.traces)
        self.assert_same_iterations(Path(found["recording"]), 1, 2)
        # and one that begins while a recording is under way
        waiting = subprocess.Popen([CHOSEN.etlink, "trigger", str(self.traces), "--steps", "9000", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: list((self.traces / ".etlink").glob("*.host.json")))
        self.switch()
        (given_up,) = json.loads(waiting.communicate(timeout=300)[0])["ranks"]
        self.switch()
        return theirs, [refused["why"], given_up["why"]]

    def assert_around(self, theirs: dict, whys: list[str]):
        wanted = [
            "the program's own profiler or execution trace observer was running, and PyTorch allows only one at a time",
            "the program started a profiler of its own during the recording, which is discarded",
        ]
        self.assertEqual(whys, wanted)
        # as without us: each iteration of its time is in it
        ranges = [event["name"] for event in theirs["traceEvents"] if event.get("cat") == "user_annotation"]
        self.assertGreater(sum(name.startswith("iteration") for name in ranges), 20)

    def test_under_the_command_its_traces_are_taken_too(self):
        script = self.script("own.py", self.program())
        job = self.start_job("", f"python {script} {self.stop}")
        self.assert_around(*self.ask_around())
        _, err = self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([cycle.get("own_profiler", False) for cycle in rank["cycles"]], [False, True, False, True], err)
        folders = [Path(cycle["host_trace"]).parent for cycle in rank["cycles"]]
        self.assertEqual(len(set(folders)), 4)
        for cycle in rank["cycles"]:
            self.assert_pair(cycle)

    def test_recordings_of_every_are_left_out_while_it_records(self):
        # between two recordings: one that is under way would be given up, and that is said
        text = self.program().replace("!= (own is not None):", "!= (own is not None) and made % 20 == 10:")
        self.assertIn("made % 20", text)
        script = self.script("own.py", text)
        job = self.start_job("--every 20 --steps 1", f"python {script} {self.stop}")
        self.switch()
        (counter,) = (self.traces / ".etlink").glob("*.steps")
        begun = int(counter.read_text())
        self.wait_for(lambda: int(counter.read_text()) > begun + 60)
        self.switch()
        ended = int(counter.read_text())
        self.wait_for(lambda: int(counter.read_text()) > ended + 60)
        _, err = self.end_job(job)
        # the program's own
        self.assertEqual(job.returncode, 3, err)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual((rank["notes"], [asked["why"] for asked in rank["asked"] if asked["why"]]), ([], []))
        firsts = [asked["first_step"] for asked in rank["asked"]]
        self.assertTrue(any(first < begun for first in firsts) and any(first > ended for first in firsts), firsts)
        self.assertEqual([first for first in firsts if begun + 20 < first < begun + 60], [])
        self.assertEqual(sum(cycle.get("own_profiler", False) for cycle in rank["cycles"]), 1)

    def test_a_second_warmup_of_one_whose_cycles_add_up(self):
        """Between cycles it has the results of the one before."""
        cycles = "acc_events=True, schedule=lambda step: torch.profiler.ProfilerAction.RECORD_AND_SAVE if step == 1 else torch.profiler.ProfilerAction.WARMUP"
        text = self.program().replace("schedule=lambda _: torch.profiler.ProfilerAction.RECORD", cycles)
        self.assertIn("acc_events", text)
        script = self.script("own.py", f"from etlink_torch import arm\narm({str(self.traces)!r})\n" + text)
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        job = subprocess.Popen(["python", script, self.stop], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        self.wait_for_steps(job, 1)
        self.switch()
        (refused,) = self.triggered(self.traces, code=1)["ranks"]
        self.assertIn("own profiler or execution trace observer was running", refused["why"])
        self.switch()
        found = self.triggered(self.traces)
        self.assert_same_iterations(Path(found["recording"]), 1, 2)
        out, err = self.end_job(job)
        self.assertEqual((out.splitlines()[-1], job.returncode), ("done", 3), err)

    def test_in_a_script_it_is_left_alone(self):
        script = self.script("own.py", f"from etlink_torch import arm\narm({str(self.traces)!r})\n" + self.program())
        variables = environment() | {"PYTHONPATH": str(PACKAGE)}
        job = subprocess.Popen(["python", script, self.stop], env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end_job, job)
        self.wait_for_steps(job, 1)
        self.assert_around(*self.ask_around())
        self.end_job(job)
        (rank,) = self.manifest()["ranks"]
        self.assertEqual([cycle.get("own_profiler", False) for cycle in rank["cycles"]], [False, False])


class Withdrawn(Jobs):
    """Requests that are taken back: either nothing was recorded, or it is too late, never both."""

    def wait_in_background(self, *words: str) -> subprocess.Popen:
        request = self.traces / ".etlink/trigger.json"
        before = request.exists()
        line = [CHOSEN.etlink, "trigger", str(self.traces), *words]
        # a suite that runs in the background of a shell has it ignored
        heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        waiting = subprocess.Popen(line, preexec_fn=heeds, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_for(lambda: before or request.exists() or waiting.poll() is not None)
        return waiting

    def test_before_the_ranks_have_agreed(self):
        job = self.stand()
        work = self.traces / ".etlink"
        for number in (signal.SIGINT, signal.SIGTERM):
            waiting = self.wait_in_background()
            waiting.send_signal(number)
            out, err = waiting.communicate(timeout=300)
            self.assertEqual(waiting.returncode, 1, err)
            self.assertIn("none since the request; the request is withdrawn", out)
            self.assertEqual([name for name in ("trigger.json", "plan.json") if (work / name).exists()], [])
        self.assertIn("no recording is requested", self.trigger(self.traces, "--cancel", code=2).stderr)
        waiting = self.wait_in_background()
        self.assertRegex(self.trigger(self.traces, "--cancel").stdout, r"withdrawn: the request of `etlink trigger`, requested \d+ s ago\n")
        out, err = waiting.communicate(timeout=300)
        self.assertEqual(waiting.returncode, 1, err)
        self.assertIn("another command has withdrawn the request", out)
        # a file that nobody has written to is a request too
        (work / "trigger.json").touch()
        self.assertIn("withdrawn: the request of a file", self.trigger(self.traces, "--cancel").stdout)
        self.end_job(job)
        self.assertEqual((job.returncode, self.left()), (0, ["etlink.json"]))

    def test_after_the_ranks_have_agreed(self):
        job = self.start_job("", f"python looping.py {self.stop} 0.01")
        waiting = self.wait_in_background("--steps", "9000")
        self.wait_for((self.traces / ".etlink/plan.json").exists)
        late = self.trigger(self.traces, "--cancel", code=1)
        self.assertRegex(late.stdout, r"too late: the ranks have agreed to record from step \d+ on, and will do so\n")
        waiting.terminate()
        out, err = waiting.communicate(timeout=300)
        self.assertEqual(waiting.returncode, 1, err)
        self.assertRegex(out, r"(since|records from) step \d+")
        self.end_job(job)
        (asked,) = self.manifest()["ranks"][0]["asked"]
        self.assertIn(f"step {asked['first_step']} ", late.stdout)

    def test_a_plan_that_goes_with_the_request(self):
        """A rank may have made it while another command withdrew the request; this process is that rank."""
        work = self.traces / ".etlink"
        work.mkdir(parents=True)
        (work / "host.7.armed").write_text(json.dumps({"pid": 7, "host": "h", "rank": 0, "answer": None, "asked": []}))
        with open(work / "host.7.alive", "w") as alive:
            fcntl.lockf(alive, fcntl.LOCK_EX)
            waiting = self.wait_in_background("--timeout", "200")
            asked = json.loads((work / "trigger.json").read_text())
            (work / "plan.json").write_text(json.dumps({"id": asked["id"], "by": asked["by"], "first": 9}))
            self.assertIn("recording starts at step 9", waiting.stderr.readline())
            for name in ("trigger.json", "plan.json"):
                (work / name).unlink()
            out, err = waiting.communicate(timeout=300)
        self.assertIn("another command has withdrawn the request", out)
        self.assertEqual(waiting.returncode, 1, err)

    def test_at_the_same_moment(self):
        job = self.start_job("", f"torchrun --nproc-per-node 2 looping.py {self.stop} ddp", ranks=2)
        ends = []
        for round in range(10):
            waiting = self.wait_in_background()
            time.sleep(round * 0.03)
            line = [CHOSEN.etlink, "trigger", str(self.traces), "--cancel"]
            cancelled = subprocess.run(line, capture_output=True, text=True)
            out, err = waiting.communicate(timeout=300)
            is_recorded = out.startswith("recorded steps")
            self.assertEqual((cancelled.returncode, waiting.returncode), (1, 0) if is_recorded else (0, 1), (cancelled, out, err))
            ends.append(is_recorded)
        self.assertEqual(set(ends), {True, False})
        self.end_job(job)
        for rank in self.manifest()["ranks"]:
            self.assertEqual([asked["why"] for asked in rank["asked"]], [None] * sum(ends))


class Wrong(Jobs):
    """What cannot be asked for, and recordings that fail."""

    def test_traces_that_cannot_be_written(self):
        """A trace that comes to no end is given up and named; when there is room again, the next one is whole."""
        text = (PROGRAMS / "looping.py").read_text()
        limit = "import os, resource\n"
        change = "    made += 1\n    if os.path.exists(stop + '.full') != full:\n        full = not full\n        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000 if full else -1, -1))\n"
        text = limit + text.replace("made = 0\n", "made, full = 0, False\n").replace("    made += 1\n", change)
        script = self.script("full.py", text)
        job = self.start_job("", f"python {script} {self.stop}")
        full = Path(f"{self.stop}.full")
        full.touch()
        found = self.triggered(self.traces, code=1)
        self.assertIn("a trace of this cycle is incomplete", found["ranks"][0]["why"])
        self.assertEqual(list(self.traces.glob("cycle_*")), [])
        full.unlink()
        found = self.triggered(self.traces)
        self.assert_same_iterations(Path(found["recording"]), 1, 2)
        out, err = self.end_job(job)
        self.assertEqual((out.splitlines()[-1], job.returncode), ("done", 3), err)

    @unittest.skipIf(os.geteuid() == 0 and not Path("/usr/bin/setpriv").exists(), "root may write everywhere")
    def test_a_folder_that_may_not_be_written(self):
        job = self.start_job("", f"python looping.py {self.stop}")
        work = self.traces / ".etlink"
        for folder in (self.folder, self.traces):
            folder.chmod(0o755)
        work.chmod(0o555)
        line = [CHOSEN.etlink, "trigger", str(self.traces)]
        if os.geteuid() == 0:
            line = ["setpriv", "--reuid=65534", "--clear-groups", *line]
        ran = subprocess.run(line, capture_output=True, text=True)
        work.chmod(0o755)
        self.assertEqual(ran.returncode, 2)
        self.assertIn("run as the user of the job", ran.stderr)
        self.end_job(job)
        self.assertEqual(job.returncode, 3)

    def test_a_job_that_is_not_armed(self):
        job = self.start("--wait 100000 --warmup 1 --active 1", f"python looping.py {self.stop}")
        self.addCleanup(self.end_job, job)
        # that file is there before it has a number, and before the process has reported
        self.wait_for(lambda: any(path.read_text() for path in (self.traces / ".etlink").glob("*.steps")))
        refused = self.trigger(self.traces, code=2).stderr
        self.assertIn("the job in traces cannot record: it was started without --armed", refused.replace(str(self.folder) + "/", ""))
        # that is no matter of time
        begun = time.monotonic()
        self.assertIn("it was started without --armed", self.trigger(self.traces, "--timeout", "100", code=2).stderr)
        self.assertLess(time.monotonic() - begun, 50)

    def test_nobody_makes_a_step(self):
        job = self.stand()
        found = self.triggered(self.traces, "--timeout", "1", code=1)
        self.assertRegex(found["ranks"][0]["why"], r"it has made \d+ steps, but none since the request; the request is withdrawn")
        self.assertFalse((self.traces / ".etlink/trigger.json").exists())
        self.end_job(job)
        self.assertEqual(job.returncode, 0)


LONGEST = ("test_four_ranks_record_the_same_steps", "test_ranks_that_die_are_named")

if __name__ == "__main__":
    test_torch.main(LONGEST)
