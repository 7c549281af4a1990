"""Makes every call of the hook fail in turn, and prints as JSON what came of it.

    etlink record --wait 1 --warmup 1 --active 2 -o traces -- python faults.py FOLDER EVERY

The hook's own source is compiled so that each of its calls goes through `call` below; the n-th raises,
alone or with all later ones that need the operating system (a disk that is full stays full). PyTorch is imported once: each run is a
forked process that installs the hook, trains, and ends as a program does. EVERY=1 makes each call
fail, 3 each third one.
"""

import ast
import errno
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


def unloaded(hook):
    """Notes of processes that could not load the hook, taken away."""
    notes = list(pathlib.Path(hook).glob("*.note"))
    for note in notes:
        note.unlink()
    return notes


def main():
    root, every = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    (finder,) = [finder for finder in sys.meta_path if type(finder).__name__ == "AfterImport"]
    sys.meta_path.remove(finder)
    import torch

    hook = json.loads(os.environ["ETLINK_RECORD"])["hook"]
    expected, wrong, seen = train(torch), [], []

    def attempt_run(name, target, persistent):
        folder = root / name
        pid = os.fork()
        if pid == 0:
            run(torch, finder.then, folder, target, persistent)
            sys.exit(0)
        _, status = os.waitpid(pid, 0)
        complaint = judge(folder, status, expected)
        if unloaded(hook) and complaint and complaint.startswith("nothing is recorded"):
            complaint = None
        return folder, status, complaint

    folder, status, complaint = attempt_run("plain", 0, False)
    calls = json.loads((folder / "calls").read_text())[0]
    if complaint or len(list(folder.glob("*_0.json"))) != 2:
        wrong.append(["plain", complaint])
    for persistent in (False, True):
        # what is called at exit comes after the count was written
        for target in range(1, calls + 30, every):
            name = "{}-{}".format("from" if persistent else "only", target)
            folder, status, complaint = attempt_run(name, target, persistent)
            failed = (folder / "calls").exists() and json.loads((folder / "calls").read_text())[1]
            seen.append(failed)
            # where nothing can be written or renamed any more, nobody can be told, nor can the
            # first trace of a pair, which is whole, be taken back
            is_beyond_us = persistent and complaint and complaint.startswith(("nothing is", "one trace"))
            if complaint and not is_beyond_us:
                wrong.append([name, failed, complaint])
    print(json.dumps({"calls": calls, "runs": len(seen), "failed": sorted({str(s) for s in seen}), "wrong": wrong}))
    sys.stdout.flush()
    os._exit(0)


main()
