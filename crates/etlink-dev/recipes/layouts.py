"""Lays a recorded pair of ranks out as tools that record with PyTorch lay their traces out.

    python3 crates/etlink-dev/recipes/layouts.py testdata/pairs/experts2-2.15.0 testdata/layouts

The content is that of the recorded case; only folders and names are those of the tool.
"""

import shutil
import sys
from pathlib import Path

# {r}: the rank. Names without a host trace are those of tools that record the device trace alone.
LAYOUTS = {
    "megatron": ("chakra/rank-{r}.json.gz", "torch_profile/rank-{r}.json.gz"),
    "host-and-device": ("host/rank-{r}.json.gz", "device/rank-{r}.json.gz"),
    "olmo": ("rank-{r}/execution-trace.json.gz", "rank-{r}/trace.json.gz"),
    "chakra-samples": ("chakra_host_{r}.json.gz", "chakra_device_{r}.json.gz"),
    "mlrepository": ("m_pytorch_et_rank_{r}.json.gz", "m_kineto_rank{r}.json.gz"),
    "torchtitan": (None, "iteration_10/rank{r}_trace.json.gz"),
    "tensorboard": (None, "node1_471{r}.179522512951{r}000000.pt.trace.json.gz"),
    "vllm": (None, "dp0_pp0_tp{r}_dcp0_ep0_rank{r}.1795225129510000000.pt.trace.json.gz"),
    "sglang": (None, "1795225129.51-TP-{r}.trace.json.gz"),
}


def lay_out(case: Path, target: Path) -> None:
    for layout, (host, device) in LAYOUTS.items():
        for rank in range(2):
            for name, kind in ((host, "torch_et"), (device, "kineto_trace")):
                if name is None:
                    continue
                path = target / layout / name.format(r=rank)
                path.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(case / f"{kind}_{rank}.json.gz", path)


if __name__ == "__main__":
    lay_out(Path(sys.argv[1]), Path(sys.argv[2]))
