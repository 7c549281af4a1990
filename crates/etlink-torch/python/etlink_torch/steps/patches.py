"""What is replaced in the program while steps are counted, and how it comes back."""

from ..guard import attempt

ABSENT = object()


class Patches:
    """Replaced attributes and other changes; `undo` takes them back, the last one first."""

    def __init__(self):
        self.active, self.actions = True, []

    def replace(self, owner, name, new):
        """Sets an attribute of a class, module or instance."""
        before = vars(owner).get(name, ABSENT)
        setattr(owner, name, new)

        def restore():
            # what others have put over ours is theirs, and ours does nothing from now on
            if vars(owner).get(name) is not new:
                return
            if before is ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)

        self.actions.append(restore)

    def on_undo(self, action):
        self.actions.append(action)

    def undo(self):
        """Further calls do nothing."""
        self.active = False
        while self.actions:
            # what cannot be taken back does nothing any more
            attempt(self.actions.pop())
