"""What is known of objects of the program."""

import weakref


class Known:
    """For as long as they live. They need not be hashable."""

    def __init__(self):
        self.states = {}

    def get(self, thing):
        found = self.states.get(id(thing))
        return None if found is None else found[1]

    def set(self, thing, state):
        number = id(thing)
        reference = weakref.ref(thing, lambda _: self.states.pop(number, None))
        self.states[number] = (reference, state)

    def clear(self):
        self.states.clear()
