"""The part of `etlink record` that runs inside the recorded program. Needs nothing but PyTorch, 2.1 or newer."""
