"""All tests of recording with real PyTorch at once: none of the files waits for the last test of another.

    python3 crates/etlink-dev/recipes/suites.py --etlink target/debug/etlink [--torch 2.15.0]

Started by `cargo dev test-torch`.
"""

import test_frameworks
import test_hook
import test_profile
import test_safety
import test_torch
import test_trigger

SUITES = (test_safety, test_torch, test_frameworks, test_profile, test_trigger, test_hook)

if __name__ == "__main__":
    test_torch.main(
        longest=tuple(name for suite in SUITES for name in suite.LONGEST),
        libraries=test_frameworks.LIBRARIES,
        modules=tuple(suite.__name__ for suite in SUITES),
    )
