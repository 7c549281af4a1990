"""Makes every call of the hook fail in turn, and prints as JSON what came of it.

    etlink record --wait 1 --warmup 1 --active 2 -o traces -- python faults.py FOLDER every-place [WAY...]

The hook's own source is compiled so that each of its calls goes through `call` below; the n-th raises,
alone or with all later ones that need the operating system (a disk that is full stays full). PyTorch is
imported once: each run is a forked process that installs the hook, trains, and ends as a program does.
`every-place` makes the first and the last call of each place in the source fail, `every-call` all of them.
Of what counts steps otherwise than by the optimizer only the calls of `steps/` fail, by `every-place` the first
of each: the others are the same.
"""

import ast
import atexit
import collections
import concurrent.futures
import ctypes
import datetime
import errno
import gc
import importlib
import importlib.machinery
import inspect
import json
import multiprocessing
import os
import pathlib
import queue
import sys
import threading

GUARDS = {"attempt", "call_each", "deferred", "deliver", "describe", "guarded", "is_programs", "silent", "super"}
"""What guards the others: no part of it calls anything that can fail."""
PROGRAMS_OWN = {"function", "original", "take_lock", "watch_lock", "__call__", "__init_subclass__", "__setattr__"}
"""Calls of what the hook has wrapped: their errors are the program's."""
OF_DYNAMO = {"eval_frame_callback", "is_tracing", "set_eval_frame"}
"""A constant, and functions in C that give what is set, or take it."""
OF_LOCKS = {"_getframe", "extend", "map"}
"""Builtins by which the caller of a lock is seen, and its answer is noted in C."""
TRUSTED = GUARDS | PROGRAMS_OWN | OF_DYNAMO | OF_LOCKS
STEPS = 6
OWN = ("own", "own-observer")
"""Programs that profile themselves; faults in what records beside them."""
OWN_FILES = {"own": ("own_profiler", "host_cut", "session"), "own-observer": ("own_profiler", "host_cut")}
ARMED = "armed"
"""A program that is asked for a recording that it does not come to, and records another by the number of a step."""
ARMED_SETTINGS = {"steps": 1, "warmup": 1, "every": 4, "keep": 1, "when": {"factor": 2.0}, "signal": "SIGUSR2"}
OWN_FILES[ARMED] = ("armed", "restarts", "watch", "trigger_signal")
WAYS = ("optimizer", "forward", "forward:Linear", "__main__:late_step", "late:step", "importing:step", "annotation:iteration")
"""What counts as a step; the first with faults everywhere. The modules are those of `MODULES`."""
AT_EXIT = range(1, 30, 7)
"""Calls behind the last that is counted, which fail besides."""
OVER_TORCH = {"torch", "triton", "sympy", "numpy", "mpmath", "networkx", "jinja2"}
"""Packages that stay in memory when a run ends."""
MODULES = {
    "late": "def step(train):\n    train()\n",
    # what imports torch: the hook comes before the function is there
    "importing": "import __main__\n__main__.CHILD.install()\ndef step(train):\n    train()\n",
}


class Calls(ast.NodeTransformer):
    """`f(x)` becomes `__etlink_call__("f", "file:line:column", f, x)`."""

    def __init__(self, path):
        self.file = os.path.basename(path)
        self.places = []

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "?")
        if name in TRUSTED:
            return node
        through = ast.Name("__etlink_call__", ast.Load())
        place = "{}:{}:{}".format(self.file, node.lineno, node.col_offset)
        self.places.append(place)
        arguments = [ast.Constant(name), ast.Constant(place), node.func, *node.args]
        return ast.copy_location(ast.Call(through, arguments, node.keywords), node)


def needs_system(function):
    module = getattr(function, "__module__", None) or type(function).__module__
    return module in ("posix", "os", "io", "_io", "shutil", "gzip", "fcntl", "posixpath", "genericpath")


class Counter:
    def __init__(self, target, persistent):
        self.made, self.target, self.persistent, self.failed = 0, target, persistent, None
        self.places = []
        """Where each call stands, of a run in which none fails."""

    def call(self, name, place, function, *arguments, **named):
        self.made += 1
        if self.target == 0:
            self.places.append(place)
        later = self.persistent and self.made > self.target and needs_system(function)
        if self.made == self.target or later:
            self.failed = self.failed or name
            # no error of the operating system alone: our own mistakes are of other types
            raise OSError(errno.ENOSPC, "no space") if self.made % 2 else RuntimeError("injected")
        return function(*arguments, **named)


class Sources:
    """The files of the hook, compiled plainly and with counted calls: once, for all runs."""

    def __init__(self, hook):
        self.plain, self.counted, self.sites = {}, {}, set()
        for path in pathlib.Path(hook).rglob("*.py"):
            text, path = path.read_text(), str(path)
            self.plain[path] = compile(text, path, "exec", dont_inherit=True)
            if path.endswith("guard.py"):
                continue
            calls = Calls(path)
            tree = ast.fix_missing_locations(calls.visit(ast.parse(text)))
            self.counted[path] = compile(tree, path, "exec", dont_inherit=True)
            self.sites.update(calls.places)

    def use(self, counter, parts):
        """From here on what is loaded from the folder of the hook has counted calls, where its path has one of `parts`."""
        __builtins__.__etlink_call__ = counter.call
        loader = importlib.machinery.SourceFileLoader
        get_code = loader.get_code

        def get_counted(self_of_loader, name):
            path = self_of_loader.get_filename(name)
            if path not in self.plain:
                return get_code(self_of_loader, name)
            return self.counted.get(path, self.plain[path]) if any(part in path for part in parts) else self.plain[path]

        # compiled files on the disk are of plain code
        loader.get_code = get_counted


def wait_for_threads():
    """What is replaced while a cycle is recorded, and must work with each call of ours that fails."""
    items, lock, event = queue.Queue(1), threading.Lock(), threading.Event()
    reentrant, between = threading.RLock(), multiprocessing.SimpleQueue()

    def work():
        with lock, reentrant, reentrant:
            items.put(1)
            items.put(2, timeout=10)
        event.set()

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        future = pool.submit(abs, -3)
        thread = threading.Thread(target=work)
        thread.start()
        taken = [items.get(), items.get(), future.result(10), event.wait(10)]
        with lock, reentrant:
            thread.join()
    between.put(4)
    taken.append(between.get())
    assert taken == [1, 2, 3, True, 4], taken


def train(torch, step):
    torch.manual_seed(7)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []

    def iteration():
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    for _ in range(STEPS):
        wait_for_threads()
        step(iteration)
    return "loss {:.6f}".format(losses[-1])


def call(iteration):
    iteration()


class Annotated:
    """A program whose ranges are its steps."""

    def __init__(self, torch):
        self.torch = torch

    def __call__(self, iteration):
        with self.torch.profiler.record_function("iteration"):
            iteration()


class Profiled:
    """A program with a profiler: two cycles by a schedule, and one that nobody exports."""

    def __init__(self, torch, folder, has_observer):
        self.torch, self.folder, self.exports = torch, folder, 0
        self.kinds = {"activities": [torch.profiler.ProfilerActivity.CPU]}
        self.observer = None
        if has_observer:
            self.observer = torch.profiler.ExecutionTraceObserver()
            self.observer.register_callback(str(folder / "host.theirs"))
        plan = torch.profiler.schedule(wait=0, warmup=1, active=1, repeat=2)
        more = {"execution_trace_observer": self.observer} if has_observer else {}
        self.profiler = torch.profiler.profile(**self.kinds, schedule=plan, on_trace_ready=self.export, **more)
        self.profiler.__enter__()

    def __call__(self, iteration):
        iteration()
        self.profiler.step()

    def export(self, profiler):
        profiler.export_chrome_trace(str(self.folder / "device_{}.theirs".format(self.exports)))
        self.exports += 1

    def end(self):
        self.profiler.__exit__(None, None, None)
        with self.torch.profiler.profile(**self.kinds):
            self.torch.ones(3) + 1
        assert self.exports == 2


def complaint_of_theirs(folder, name):
    """What is wrong with the files of a program that profiles itself."""
    wanted = {"device_0.theirs", "device_1.theirs"} | ({"host.theirs"} if name.startswith(OWN[1]) else set())
    if {path.name for path in folder.glob("*.theirs")} != wanted:
        return "the program's own files are not there"
    for path in folder.glob("*.theirs"):
        try:
            json.loads(path.read_text())
        except ValueError:
            return "the program's own file is half: {}".format(path.name)
    return None


class Child:
    """A forked process: installs the hook with a fault, trains, and ends as any program."""

    def __init__(self, torch, then, sources, folder, way, target, persistent):
        self.torch, self.then, self.sources, self.folder, self.way = torch, then, sources, folder, way
        self.counter = Counter(target, persistent)

    def begin(self):
        # before what the hook registers, so called behind it
        atexit.register(keep_torch, self.torch)
        settings = json.loads(os.environ["ETLINK_RECORD"])
        work = self.folder / ".etlink"
        work.mkdir(parents=True)
        (self.folder / "hook").mkdir()
        settings.update(output=str(self.folder), work=str(work), hook=str(self.folder / "hook"))
        settings["step_on"] = WAYS[0] if self.way in (*OWN, ARMED) else self.way
        if self.way == ARMED:
            settings.update(schedule=None, armed=ARMED_SETTINGS)
            (work / "trigger.json").touch()
        os.environ["ETLINK_RECORD"] = json.dumps(settings)
        parts = ("",) if self.way == WAYS[0] else OWN_FILES.get(self.way, (os.sep + "steps",))
        self.sources.use(self.counter, parts)
        module = self.way.partition(":")[0]
        if module != "importing":
            self.install()

    def install(self):
        self.then(self.torch)

    def end(self, step):
        """`step` is what a script has defined after the hook was installed."""
        module = self.way.partition(":")[0]
        if module in MODULES:
            step = importlib.import_module(module).step
        elif module != "__main__":
            step = call
        if self.way in OWN:
            step = Profiled(self.torch, self.folder, self.way == OWN[1])
        if module == "annotation":
            step = Annotated(self.torch)
        printed = train(self.torch, step)
        if self.way in OWN:
            step.end()
        (self.folder / "printed").write_text(printed)
        # registered last, so called first: the calls at exit are not in it
        made = self.counter.made
        atexit.register(lambda: self.write_calls(made))

    def write_calls(self, made):
        (self.folder / "calls").write_text(json.dumps([made, self.counter.failed, self.counter.places[:made]]))


def keep_torch(torch):
    """Python frees itself and the hook as ever, but not what was there before the fork: that takes 0.5 of 0.7 s."""
    if torch._C._autograd._profiler_enabled():
        # what still records is what may crash
        return
    for name in list(sys.modules):
        if name.partition(".")[0] in OVER_TORCH:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules.pop(name)))
    # ends with the same status, without the destructors of native libraries
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)


def judge(folder, status, expected):
    """What is wrong with a run, or None."""
    if os.waitstatus_to_exitcode(status) != 0:
        return "ended with {}".format(os.waitstatus_to_exitcode(status))
    printed = folder / "printed"
    if not printed.exists() or printed.read_text() != expected:
        return "the program did not print what it prints"
    traces = sorted(path for path in place_of_traces(folder).glob("*") if path.name.startswith(("torch_et", "kineto")))
    for path in traces:
        try:
            json.loads(path.read_text())
        except ValueError:
            return "half a file: {}".format(path.name)
    if len(traces) == 1:
        return "one trace of two: {}".format(traces[0].name)
    if not traces and not noted(folder):
        return "nothing was recorded and no note says why"
    return None


def place_of_traces(folder):
    return folder / "cycle_4" if folder.name.startswith(ARMED) else folder


def noted(folder):
    for path in (folder / ".etlink").glob("*.json"):
        # a report is L.123.json, an unfinished trace L.123.host.json
        if path.name.count(".") != 2:
            continue
        if json.loads(path.read_text())["notes"]:
            return True
    return any(path.read_text().strip() for path in (folder / "hook").glob("*.note"))


def is_unloaded(hook, pid):
    """Whether the process could not load the hook; takes its note away."""
    note = pathlib.Path(hook) / "{}.note".format(pid)
    note_exists = note.exists()
    note.unlink(missing_ok=True)
    return note_exists


class Forked(Exception):
    """Takes a forked process back to the top level of this script, where scripts define functions."""

    def __init__(self, child):
        super().__init__()
        self.child = child


class Runs:
    """Forked runs, as many at a time as there are processors."""

    def __init__(self, torch, install, root):
        self.torch, self.install, self.root = torch, install, root
        self.hook = json.loads(os.environ["ETLINK_RECORD"])["hook"]
        self.sources = Sources(self.hook)
        self.expected = train(torch, call)
        self.active, self.complaints = {}, {}
        # else each child walks and frees all objects of torch when it ends, for 0.8 s
        gc.collect()
        gc.freeze()

    def start(self, way, name, target, persistent):
        """Raises `Forked` in the new process."""
        if len(self.active) == os.cpu_count():
            self.wait_for_one()
        folder = self.root / name
        child = Child(self.torch, self.install, self.sources, folder, way, target, persistent)
        pid = os.fork()
        if pid == 0:
            # what native libraries say of objects that outlive the interpreter
            os.dup2(os.open(str(folder) + ".stderr", os.O_WRONLY | os.O_CREAT, 0o600), 2)
            raise Forked(child)
        self.active[pid] = name

    def wait_for_one(self):
        pid, status = os.wait()
        name = self.active.pop(pid)
        complaint = judge(self.root / name, status, self.expected)
        if name.startswith(OWN):
            complaint = complaint or complaint_of_theirs(self.root / name, name)
        if is_unloaded(self.hook, pid) and complaint and complaint.startswith("nothing was recorded"):
            complaint = None
        self.complaints[name] = complaint

    def wait_for_all(self):
        while self.active:
            self.wait_for_one()

    def calls(self, name):
        """How many calls, the name of the one that failed, all places; None if the run did not come to its end."""
        path = self.root / name / "calls"
        return json.loads(path.read_text()) if path.exists() else (None, None, None)


def own_ways(torch):
    """PyTorch takes an observer from 2.3 on."""
    has_observer = "execution_trace_observer" in inspect.signature(torch.profiler.profile).parameters
    return OWN if has_observer else OWN[:1]


def main():
    """Returns in forked processes alone."""
    root, sample = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    (finder,) = [finder for finder in sys.meta_path if type(finder).__name__ == "AfterImport"]
    sys.meta_path.remove(finder)
    for name, text in MODULES.items():
        (root / (name + ".py")).write_text(text)
    sys.path.insert(0, str(root))
    import torch

    try:
        report = run_all(Runs(torch, finder.then, root), sys.argv[3:] or (*WAYS, *own_ways(torch), ARMED), sample)
    except Forked as forked:
        return forked.child
    print(json.dumps(report))
    sys.stdout.flush()
    os._exit(0)


def run_all(runs, ways, sample):
    places = {way: way.replace(":", "-") for way in ways}
    for way in ways:
        runs.start(way, places[way], 0, False)
    runs.wait_for_all()
    calls, wrong, faults, reached = {}, [], {}, set()
    for way in ways:
        calls[way], _, made_at = runs.calls(places[way])
        complaint = runs.complaints[places[way]]
        if complaint or len(list(place_of_traces(runs.root / places[way]).glob("*_0.json"))) != 2:
            wrong.append([way, complaint])
            continue
        reached.update(made_at)
        for ending, target, persistent in targets(way, made_at, sample):
            name = "{}-{}".format(places[way], ending)
            faults[name] = persistent
            runs.start(way, name, target, persistent)
    runs.wait_for_all()
    failed = {name: runs.calls(name)[1] for name in faults}
    for name, persistent in faults.items():
        complaint = runs.complaints[name]
        # where nothing can be written or renamed any more, nobody can be told, nor can the
        # first trace of a pair, which is whole, be taken back
        is_beyond_us = persistent and complaint and complaint.startswith(("nothing was", "one trace"))
        if complaint and not is_beyond_us:
            wrong.append([name, failed[name], complaint])
    names = sorted(set(map(str, failed.values())))
    sites = {"all": len(runs.sources.sites), "failed": len(reached)}
    return {"calls": calls, "sites": sites, "faults": len(faults), "failed": names, "wrong": wrong}


def targets(way, places, sample):
    """Which call fails, and whether those after it do, too.

    One in `sample` places, others each day; 0 is every call, not only the first and the last of a place.
    """
    is_first, all_calls = way == WAYS[0], sample == 0
    at_place = collections.defaultdict(list)
    for at, place in enumerate(places, 1):
        at_place[place].append(at)
    today = datetime.date.today().toordinal()
    if not all_calls:
        at_place = {place: made for number, (place, made) in enumerate(at_place.items()) if (number + today) % sample == 0}
    # what counts steps needs the operating system for nothing
    for persistent in (False, True) if is_first or way == OWN[0] else (False,):
        if all_calls:
            chosen = range(1, len(places) + 1)
        elif persistent:
            # what comes later fails as well, so that few begins reach all places
            chosen = sorted(at[0] for at in at_place.values())[::4]
        else:
            ends = ((made[0], made[-1]) if is_first else made[:1] for made in at_place.values())
            chosen = sorted({at for of_place in ends for at in of_place})
        # what is called at exit comes after the count was written
        chosen = [*chosen, *(len(places) + behind for behind in AT_EXIT)]
        for target in chosen:
            yield "{}-{}".format("from" if persistent else "only", target), target, persistent


# at the top level, where scripts define their functions
CHILD = main()
CHILD.begin()


def late_step(train):
    train()


CHILD.end(late_step)
