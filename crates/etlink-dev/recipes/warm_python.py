"""A `python` for tests that starts with PyTorch in memory: forks of one process that has imported it once.

To import PyTorch takes most of the time of a small program, and the tests start hundreds. `WarmPython` makes a folder with
a `python` and a `torchrun` for the front of PATH. They are clients: they pass their words, environment, folder, limits and open files
to the server, pass signals on to the forked process, and end as that does. The forked process runs `sitecustomize` and
the script as a new interpreter would. Until the script says `import torch`, no module of PyTorch is in `sys.modules`, and
finders see that import; so with `torch._dynamo`, which the first optimizer imports.

A forked process differs from a new one in this: it is no descendant of who started it, it has another number than the client, and
it ends without the destructors of native libraries. Tests that depend on these use the interpreter itself.
"""

import atexit
import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import json
import os
import resource
import runpy
import selectors
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

HERE = Path(__file__).resolve()
PACKAGES = {"torch", "torchgen", "functorch"}
"""What is imported before, and hidden until a program imports it."""
FRAMEWORKS = ("lightning", "lightning_fabric", "lightning_utilities", "pytorch_lightning", "torchmetrics", "transformers", "accelerate")
"""Packages that are hidden too where they are imported before; a program that imports one imports its modules in the same order."""
FRAMEWORKS_USED = "import lightning.pytorch, accelerate; from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments"
LIMITS = (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE)
OPTIONS = ("-u", "-B")
"""Options of the interpreter that the server can follow; programs with others are started anew."""
MOST_FILES = 200
HIGH = 400
"""Numbers of files while they are moved to their places."""
STARTED_S = 600

CLIENT = """#!{python} -IS
import array, json, os, resource, signal, socket, sys
words = {words} + sys.argv[1:]
rest = list(words)
while rest and rest[0] in {options}:
    rest.pop(0)
environment = dict(os.environ)
is_plain = not [name for name in environment if name.startswith("LD_") or name.startswith("PYTHON") and name not in {variables}]
if not rest or not is_plain or rest[0].startswith("-") and rest[0] not in ("-c", "-m"):
    os.execv({python!r}, [{python!r}, *words])
numbers = []
for number in map(int, os.listdir("/proc/self/fd")):
    try:
        if os.get_inheritable(number):
            numbers.append(number)
    except OSError:
        pass
umask = os.umask(0)
os.umask(umask)
ignored = [number for number in (1, 2, 3, 15) if signal.getsignal(number) == signal.SIG_IGN]
limits = [[limit, *resource.getrlimit(limit)] for limit in {limits}]
pid, early = [], []
def pass_on(number, _):
    if pid:
        os.kill(pid[0], number)
    else:
        early.append(number)
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
    if number not in ignored:
        signal.signal(number, pass_on)
server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
server.connect({path!r})
request = dict(words=words, folder=os.getcwd(), environment=environment, numbers=numbers, umask=umask, ignored=ignored, limits=limits)
server.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", numbers))])
for number in numbers:
    os.close(number)
pid.append(int(server.recv(100)))
for number in early:
    os.kill(pid[0], number)
code = int(server.recv(100) or b"250")
if code < 0:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if -code != signal.SIGKILL:
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""
VARIABLES = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")
"""Variables of the interpreter that the server follows."""


class WarmPython:
    """The server as a context, and the folder for the front of PATH. `more`: further imports, as a line of Python."""

    def __init__(self, python: Path, more: str = ""):
        self.python, self.more = python, more

    def __enter__(self) -> Path:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="etlink-warm-")))
            path, ready = folder / "socket", folder / "ready"
            bin = folder / "bin"
            bin.mkdir()
            self.client(bin / "python", path)
            self.client(bin / "torchrun", path, "-m", "torch.distributed.run")
            line = [self.python, HERE, path, ready, bin / "python", self.more]
            server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=self.environment())
            stack.callback(server.wait)
            stack.callback(server.stdin.close)
            self.server, self.ready, self.stack = server, ready, stack.pop_all()
            return bin

    def wait(self):
        """Until the server has imported everything."""
        deadline = time.monotonic() + STARTED_S
        while not self.ready.exists():
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the server that imports PyTorch did not start")
            time.sleep(0.05)

    def __exit__(self, *_):
        self.stack.close()

    def environment(self) -> dict[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
            "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "",
        }

    def client(self, place: Path, path: Path, *words: str):
        text = CLIENT.format(
            python=str(self.python), words=list(words), options=OPTIONS, variables=VARIABLES, limits=list(LIMITS), path=str(path)
        )
        place.write_text(text)
        place.chmod(place.stat().st_mode | stat.S_IXUSR)


class Hidden:
    """Modules that were imported before, and appear in `sys.modules` when a program imports one of their group."""

    def __init__(self):
        self.groups, self.followers = {}, {}

    def hide(self):
        """Takes what was imported since as one more group."""
        group = self.imported(PACKAGES)
        self.groups.update(dict.fromkeys(group, group))

    def hide_each(self):
        """Takes each module that was imported since as a group of its own, which a package follows with its modules."""
        for name, module in self.imported(PACKAGES).items():
            self.groups[name] = {name: module}
        for package in FRAMEWORKS:
            modules = self.imported([package])
            self.groups.update({name: {name: module} for name, module in modules.items()})
            self.followers[package] = list(modules)

    def imported(self, packages):
        """Modules of the packages that are in no group yet, in the order of their imports."""
        return {
            name: module
            for name, module in sys.modules.items()
            if name.partition(".")[0] in packages and name not in self.groups and module.__spec__ is not None
        }

    def begin(self):
        for name in self.groups:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if name not in self.groups:
            return None
        known = self.groups[name][name].__spec__
        spec = importlib.machinery.ModuleSpec(name, Loader(self.groups[name], name, self.followers.get(name, ())), origin=known.origin)
        spec.submodule_search_locations = known.submodule_search_locations
        spec.has_location, spec.cached = known.has_location, known.cached
        return spec


class Loader:
    """One for each import: who waits for its end replaces `exec_module`."""

    def __init__(self, group, name, followers):
        self.group, self.name, self.followers = group, name, followers

    def create_module(self, spec):
        return self.group[self.name]

    def exec_module(self, module):
        for name, other in self.group.items():
            sys.modules.setdefault(name, other)
        for name in self.followers:
            importlib.import_module(name)


class Forked(Exception):
    """Takes a forked process back to the top level, where scripts run."""

    def __init__(self, request):
        super().__init__()
        self.request = request


class Server:
    """Forks a process for each client and tells it how that ended; ends when its standard input does."""

    def __init__(self, listener):
        self.listener, self.selector = listener, selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        self.selector.register(0, selectors.EVENT_READ, None)

    def run(self):
        """Raises `Forked` in each new process."""
        while True:
            for key, _ in self.selector.select():
                if key.data is None:
                    os._exit(0)
                key.data()

    def accept(self):
        client, _ = self.listener.accept()
        self.selector.register(client, selectors.EVENT_READ, lambda: self.start(client))

    def start(self, client):
        self.selector.unregister(client)
        message, files, _, _ = socket.recv_fds(client, 1 << 21, MOST_FILES)
        if not message:
            client.close()
            return
        request = json.loads(message)
        pid = os.fork()
        if pid == 0:
            client.detach()
            self.leave()
            move_files(files, request["numbers"])
            raise Forked(request)
        for number in files:
            os.close(number)
        client.send(b"%d" % pid)
        process = os.pidfd_open(pid)
        self.selector.register(process, selectors.EVENT_READ, lambda: self.ended(client, process, pid))
        self.selector.register(client, selectors.EVENT_READ, lambda: self.killed(client, pid))

    def ended(self, client, process, pid):
        _, status = os.waitpid(pid, 0)
        self.selector.unregister(process)
        os.close(process)
        if client.fileno() >= 0:
            self.forget(client)
            with contextlib.suppress(OSError):
                client.send(b"%d" % os.waitstatus_to_exitcode(status))
            client.close()

    def killed(self, client, pid):
        """The client is gone, and its process goes with it."""
        if client.fileno() < 0:
            # the process has ended in this moment
            return
        self.forget(client)
        client.close()
        os.kill(pid, signal.SIGKILL)

    def leave(self):
        """In a forked process: no object closes a number later, when it is another file's."""
        for key in list(self.selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.detach()
        self.selector.close()

    def forget(self, client):
        self.selector.unregister(client)


def move_files(files, numbers):
    """Gives the client's files the numbers that they have there, and closes all others."""
    import fcntl

    high = [fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, HIGH) for number in files]
    os.closerange(0, HIGH)
    for number, place in zip(high, numbers):
        os.dup2(number, place)
    os.closerange(HIGH, HIGH + 2 * MOST_FILES)


def begin(request, executable, path, hidden):
    """Makes this process what a new interpreter is before its script."""
    atexit.register(keep, hidden)
    os.chdir(request["folder"])
    os.umask(request["umask"])
    for limit, soft, hard in request["limits"]:
        resource.setrlimit(limit, (soft, hard))
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.executable = executable
    sys.modules["multiprocessing"].set_executable(executable)
    hidden.begin()
    places = [place for place in os.environ.get("PYTHONPATH", "").split(os.pathsep) if place]
    sys.path[:] = [os.path.abspath(place) for place in places] + path
    sys.modules.pop("sitecustomize", None)
    with contextlib.suppress(ImportError):
        import sitecustomize  # noqa: F401


def keep(hidden):
    """Ends without freeing what was there before the fork, which would take longer than the program."""
    if hidden.groups["torch"]["torch"]._C._autograd._profiler_enabled():
        # what still records is what may crash
        return
    for name in hidden.groups:
        sys.modules.pop(name, None)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(hidden.groups))
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)


def run(words):
    """Runs a script, the text of one, or a module, as the interpreter does with these words."""
    while words[0] in OPTIONS:
        if words.pop(0) == "-u":
            for stream in (sys.stdout, sys.stderr):
                stream.reconfigure(write_through=True)
    if words[0] == "-m":
        sys.argv[:] = ["-m", *words[2:]]
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(words[1])
        return
    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    if words[0] == "-c":
        sys.argv[:] = ["-c", *words[2:]]
        sys.path.insert(0, "")
        exec(compile(words[1], "<string>", "exec"), vars(main))
        return
    path = words[0]
    sys.argv[:] = words
    sys.path.insert(0, os.path.dirname(os.path.realpath(path)))
    main.__file__ = os.path.abspath(path)
    main.__cached__ = None
    main.__loader__ = importlib.machinery.SourceFileLoader("__main__", main.__file__)
    try:
        with open(path, "rb") as file:
            text = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}", file=sys.stderr)
        sys.exit(2)
    exec(compile(text, path, "exec", dont_inherit=True), vars(main))


def serve() -> tuple:
    """Returns in forked processes alone: what they are to do."""
    place, ready, executable, more = sys.argv[1:]
    path = sys.path[1:]
    import torch  # noqa: F401

    hidden = Hidden()
    hidden.hide()
    # the first optimizer of a program imports it
    import torch._dynamo  # noqa: F401

    hidden.hide()
    exec(more, {})
    hidden.hide_each()
    # else each process walks all objects of PyTorch when it ends
    gc.collect()
    gc.freeze()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(place)
    listener.listen(100)
    Path(ready).touch()
    try:
        Server(listener).run()
    except Forked as forked:
        return forked.request, executable, path, hidden


if __name__ == "__main__":
    REQUEST, *REST = serve()
    begin(REQUEST, *REST)
    run(REQUEST["words"])
