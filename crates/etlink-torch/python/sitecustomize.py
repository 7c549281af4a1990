"""Found by each Python process that `etlink record` starts: waits for torch, and lets the machine's own sitecustomize run."""

import atexit
import importlib
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = "_etlink_hook"
"""Name of the hook's package: no module of the program is taken for it, nor it for one of theirs."""


class Unnamed(importlib.machinery.SourceFileLoader):
    """Gives code a name that is no path: the folder is gone when tools such as coverage look for what ran."""

    def path_stats(self, path):
        # no compiled file is read or written: its code would have the name of the path
        raise OSError(path)

    def source_to_code(self, data, path, **_):
        return compile(data, "<etlink>" + path[len(HERE) :], "exec", dont_inherit=True)


class AfterImport:
    """A finder that calls `then(module)` once the module `name` is imported."""

    def __init__(self, name, then):
        self.name, self.then, self.looking = name, then, False

    def find_spec(self, name, path=None, target=None):
        """Programs also ask where a module is without importing it, any number of times."""
        if name != self.name or self.looking:
            return None
        self.looking = True
        try:
            spec = importlib.util.find_spec(name)
            if spec is not None and hasattr(spec.loader, "exec_module"):
                spec.loader.exec_module = self.followed(spec.loader.exec_module)
            return spec
        except Exception:
            # the next finder says what is wrong, as it does without us
            return None
        finally:
            self.looking = False

    def followed(self, execute):
        def exec_module(module):
            try:
                execute(module)
            except Exception as error:
                if self.then is torch_is_here:
                    note(error, "import")
                raise
            try:
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self.then(module)
            except Exception as error:
                if is_programs(error):
                    raise

        return exec_module


def torch_is_here(torch):
    """Raises nothing of ours: the program must not notice."""
    try:
        load().install(torch, AfterImport)
    except Exception as error:
        if is_programs(error):
            raise
        note(error)


def is_programs(error):
    """Whether a handler of a signal raised it."""
    guard = sys.modules.get(PACKAGE + ".guard")
    return guard is not None and guard.is_programs(error)


def note(error, kind="note"):
    """For the launcher: the hook itself could not be loaded, or, of kind `import`, torch."""
    try:
        with open(os.path.join(HERE, "{}.{}".format(os.getpid(), kind)), "w") as file:
            file.write("{}: {}".format(type(error).__name__, error))
    except Exception:
        pass


def load():
    """The hook, from beside this file whatever `sys.path` says."""
    folder = os.path.join(HERE, PACKAGE)
    init = os.path.join(folder, "__init__.py")
    places = [folder]
    for place in (folder, os.path.join(folder, "steps")):
        sys.path_importer_cache[place] = importlib.machinery.FileFinder(place, (Unnamed, [".py"]))
    loader = Unnamed(PACKAGE, init)
    spec = importlib.util.spec_from_file_location(PACKAGE, init, loader=loader, submodule_search_locations=places)
    package = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = package
    spec.loader.exec_module(package)
    return importlib.import_module(PACKAGE + ".hook")


def hold_folder():
    """Leaves word that a Python process has found the hook, and keeps its folder as long as this one lives."""
    marker = os.open(os.path.join(HERE, "python"), os.O_RDWR | os.O_CREAT, 0o600)
    import fcntl

    fcntl.flock(marker, fcntl.LOCK_SH | fcntl.LOCK_NB)
    atexit.register(remove_folder, marker, os.fstat(marker), os.getpid())


def remove_folder(marker, status, pid):
    """By the last process, if the command has ended before it.

    The lock is released first: the command writes `ended` and then looks at the lock, so one of the two sees the other.
    """
    try:
        if os.getpid() != pid or not os.path.samestat(os.fstat(marker), status):
            # a forked child, or the program has closed it, and the number is another file's
            return
        import fcntl
        import shutil

        # the lock stays with forked children
        os.close(marker)
        if not os.path.exists(os.path.join(HERE, "ended")):
            return
        with open(os.path.join(HERE, "python"), "rb+") as alone:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(HERE)
    except Exception:
        pass


def chain():
    """The sitecustomize that this one hides.

    The package may be on `sys.path` too, as in its source tree, with a copy of this file: each runs once.
    """
    seen = vars(sys).setdefault("_etlink_sitecustomize", [])
    seen.append(HERE)
    path = [place for place in sys.path if os.path.abspath(place or ".") not in seen]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def start():
    try:
        hold_folder()
    except Exception:
        pass
    sys.meta_path.insert(0, AfterImport("torch", torch_is_here))


if __name__ != PACKAGE:
    if "ETLINK_RECORD" in os.environ and os.path.isdir(os.path.join(HERE, PACKAGE)):
        try:
            unnamed = {"__name__": PACKAGE, "__file__": os.path.join(HERE, "sitecustomize.py")}
            exec(Unnamed(PACKAGE, unnamed["__file__"]).get_code(PACKAGE), unnamed)
            unnamed["start"]()
        except Exception as error:
            note(error)
    chain()
