"""Found by each Python process that `etlink record` starts: waits for torch, and lets the machine's own sitecustomize run."""

import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


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
        finally:
            self.looking = False
        if spec is None or not hasattr(spec.loader, "exec_module"):
            return spec
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.then(module)

        spec.loader.exec_module = exec_module
        return spec


def torch_is_here(torch):
    """Never raises: the program must not notice."""
    try:
        from etlink_torch import hook

        hook.install(torch, AfterImport)
    except Exception:
        pass


def chain():
    """The sitecustomize that this one hides."""
    path = [place for place in sys.path if os.path.abspath(place or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "ETLINK_RECORD" in os.environ:
    try:
        with open(os.path.join(HERE, "python"), "a"):
            pass
    except OSError:
        pass
    sys.meta_path.insert(0, AfterImport("torch", torch_is_here))
chain()
