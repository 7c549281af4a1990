"""Takes its steps from another file: application.py MODULE, where MODULE is that file."""

import importlib
import sys

library = importlib.import_module(sys.argv[1])


class Loop:
    def __init__(self):
        self.trainer = library.Trainer()

    def step(self):
        self.trainer.train_step()
        library.Trainer.static_step()


def main():
    loop = Loop()
    for _ in range(8):
        loop.step()
    library.train_step()
    # nothing of the recorder watches the program any more
    print(sys.getprofile(), sys.gettrace())


main()
