"""Makes every call of the hook fail in turn, and prints as JSON what came of it.

    etlink record --wait 1 --warmup 1 --active 2 -o traces -- python faults.py FOLDER EVERY

The hook's own source is compiled so that each of its calls goes through `call` below; the n-th raises,
alone or with all later ones that need the operating system (a disk that is full stays full). PyTorch is imported once: each run is a
forked process that installs the hook, trains, and ends as a program does. EVERY=1 makes each call
fail, 3 each third one.
"""

import ast
import errno
import gc
import importlib.machinery
import json
import os
import pathlib
import sys

TRUSTED = {"attempt", "describe", "guarded", "silent", "super"}
"""What guards the others: no part of it calls anything that can fail."""
WITHOUT = ("guard.py", os.sep + "steps")
STEPS = 6


class Calls(ast.NodeTransformer):
    """`f(x)` becomes `__call__("f", f, x)`."""

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "?")
        if name in TRUSTED:
            return node
        through = ast.Name("__etlink_call__", ast.Load())
        arguments = [ast.Constant(name), node.func, *node.args]
        return ast.copy_location(ast.Call(through, arguments, node.keywords), node)


def needs_system(function):
    module = getattr(function, "__module__", None) or type(function).__module__
    return module in ("posix", "os", "io", "_io", "shutil", "gzip", "fcntl", "posixpath", "genericpath")


class Counter:
    def __init__(self, target, persistent):
        self.made, self.target, self.persistent, self.failed = 0, target, persistent, None

    def call(self, name, function, *arguments, **named):
        self.made += 1
        later = self.persistent and self.made > self.target and needs_system(function)
        if self.made == self.target or later:
            self.failed = self.failed or name
            # no error of the operating system alone: our own mistakes are of other types
            raise OSError(errno.ENOSPC, "no space") if self.made % 2 else RuntimeError("injected")
        return function(*arguments, **named)


def compile_counted(hook, counter):
    """From here on what is loaded from the folder of the hook has counted calls."""
    __builtins__.__etlink_call__ = counter.call
    loader = importlib.machinery.SourceFileLoader
    plain = loader.source_to_code

    def source_to_code(self, data, path, *, _optimize=-1):
        if not path.startswith(hook) or path.endswith(WITHOUT[0]) or WITHOUT[1] in path:
            return plain(self, data, path, _optimize=_optimize)
        tree = ast.fix_missing_locations(Calls().visit(ast.parse(data)))
        return compile(tree, path, "exec", dont_inherit=True)

    loader.source_to_code = source_to_code
    # compiled files on the disk are of plain code
    loader.get_code = lambda self, name: self.source_to_code(
        self.get_data(self.get_filename(name)), self.get_filename(name)
    )


def train(torch):
    torch.manual_seed(7)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.ones(3, 4)).square().sum()
        loss.backward()
        optimizer.step()
    return "loss {:.6f}".format(loss.item())


def run(torch, install, folder, target, persistent):
    """In a forked process: installs the hook with a fault, trains, and ends as any program."""
    settings = json.loads(os.environ["ETLINK_RECORD"])
    work = folder / ".etlink"
    work.mkdir(parents=True)
    (folder / "hook").mkdir()
    hook = settings["hook"]
    settings.update(output=str(folder), work=str(work), hook=str(folder / "hook"))
    os.environ["ETLINK_RECORD"] = json.dumps(settings)
    counter = Counter(target, persistent)
    compile_counted(hook, counter)
    install(torch)
    (folder / "printed").write_text(train(torch))
    import atexit

    # registered last, so called first: the calls at exit are not in it
    atexit.register(lambda: (folder / "calls").write_text(json.dumps([counter.made, counter.failed])))


def judge(folder, status, expected):
    """What is wrong with a run, or None."""
    if os.waitstatus_to_exitcode(status) != 0:
        return "ended with {}".format(os.waitstatus_to_exitcode(status))
    printed = folder / "printed"
    if not printed.exists() or printed.read_text() != expected:
        return "the program did not print what it prints"
    traces = sorted(path for path in folder.iterdir() if path.name.startswith(("torch_et", "kineto")))
    for path in traces:
        try:
            json.loads(path.read_text())
        except ValueError:
            return "half a file: {}".format(path.name)
    if len(traces) == 1:
        return "one trace of two: {}".format(traces[0].name)
    if not traces and not noted(folder):
        return "nothing is recorded and no note says why"
    return None


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


class Runs:
    """Forked runs, as many at a time as there are processors."""

    def __init__(self, torch, install, root):
        self.torch, self.install, self.root = torch, install, root
        self.hook = json.loads(os.environ["ETLINK_RECORD"])["hook"]
        self.expected = train(torch)
        self.active, self.complaints = {}, {}
        # else each child walks and frees all objects of torch when it ends, for 0.8 s
        gc.collect()
        gc.freeze()

    def start(self, name, target, persistent):
        if len(self.active) == os.cpu_count():
            self.wait_for_one()
        folder = self.root / name
        pid = os.fork()
        if pid == 0:
            # what native libraries say of objects that outlive the interpreter
            os.dup2(os.open(str(folder) + ".stderr", os.O_WRONLY | os.O_CREAT, 0o600), 2)
            run(self.torch, self.install, folder, target, persistent)
            sys.exit(0)
        self.active[pid] = name

    def wait_for_one(self):
        pid, status = os.wait()
        name = self.active.pop(pid)
        complaint = judge(self.root / name, status, self.expected)
        if is_unloaded(self.hook, pid) and complaint and complaint.startswith("nothing is recorded"):
            complaint = None
        self.complaints[name] = complaint

    def wait_for_all(self):
        while self.active:
            self.wait_for_one()

    def calls(self, name):
        """The calls of a run, and the name of the one that failed; None if it did not come to its end."""
        path = self.root / name / "calls"
        return json.loads(path.read_text()) if path.exists() else (None, None)


def main():
    root, every = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    (finder,) = [finder for finder in sys.meta_path if type(finder).__name__ == "AfterImport"]
    sys.meta_path.remove(finder)
    import torch

    runs = Runs(torch, finder.then, root)
    runs.start("plain", 0, False)
    runs.wait_for_all()
    calls, _ = runs.calls("plain")
    wrong, faults = [], {}
    if runs.complaints["plain"] or len(list((root / "plain").glob("*_0.json"))) != 2:
        wrong.append(["plain", runs.complaints["plain"]])
    for persistent in (False, True):
        # what is called at exit comes after the count was written
        for target in range(1, calls + 30, every):
            name = "{}-{}".format("from" if persistent else "only", target)
            faults[name] = persistent
            runs.start(name, target, persistent)
    runs.wait_for_all()
    failed = {name: runs.calls(name)[1] for name in faults}
    for name, persistent in faults.items():
        complaint = runs.complaints[name]
        # where nothing can be written or renamed any more, nobody can be told, nor can the
        # first trace of a pair, which is whole, be taken back
        is_beyond_us = persistent and complaint and complaint.startswith(("nothing is", "one trace"))
        if complaint and not is_beyond_us:
            wrong.append([name, failed[name], complaint])
    names = sorted(set(map(str, failed.values())))
    print(json.dumps({"calls": calls, "runs": len(faults), "failed": names, "wrong": wrong}))
    sys.stdout.flush()
    os._exit(0)


main()
