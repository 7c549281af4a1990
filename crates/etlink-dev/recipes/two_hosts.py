"""Record four ranks on two hosts: a network of two levels whose slower one is known.

    sudo python3 crates/etlink-dev/recipes/two_hosts.py --out testdata/two-hosts

The hosts are network namespaces of this machine, so this needs Linux, root, `ip` and /dev/net/tun. Each has
a TUN device, and this program carries the packets from one to the other: 3 ms later, 50 MB a second. Ranks 0
and 1 run on the first host, 2 and 3 on the second. Collectives of tensor groups stay on a host, those of data
groups cross the link.
"""

import argparse
import collections
import ctypes
import fcntl
import os
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
HOSTS = {"etlink-a": "10.77.0.1", "etlink-b": "10.77.0.2"}
DEVICE = "etlink0"
DELAY_S = 0.003
BYTES_PER_S = 50e6
ELEMENTS = (1 << 10, 1 << 14, 1 << 17)
TORCH = "2.15.0"

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def open_host(name: str, address: str) -> int:
    """Make the namespace, and the TUN device in it. A file in it is a packet that leaves or comes."""
    subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)
    subprocess.check_call(["ip", "netns", "add", name])
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    if libc.setns(os.open(f"/run/netns/{name}", os.O_RDONLY), 0):
        raise OSError(ctypes.get_errno(), f"cannot enter the namespace {name}")
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
    for command in (f"ip addr add {address}/24 dev {DEVICE}", f"ip link set {DEVICE} mtu 9000 up", "ip link set lo up"):
        subprocess.check_call(command.split())
    libc.setns(home, 0)
    return device


def carry(source: int, target: int) -> None:
    """Carry packets one way, for ever."""
    waiting = collections.deque()
    comes = threading.Condition()

    def deliver() -> None:
        while True:
            with comes:
                while not waiting:
                    comes.wait()
                due, packet = waiting.popleft()
            time.sleep(max(due - time.monotonic(), 0))
            os.write(target, packet)

    threading.Thread(target=deliver, daemon=True).start()
    free = 0.0
    while True:
        packet = os.read(source, 1 << 16)
        free = max(free, time.monotonic()) + len(packet) / BYTES_PER_S
        with comes:
            waiting.append((free + DELAY_S, packet))
            comes.notify()


def run_rank(rank: int, folder: str) -> None:
    """What each rank does, in the Python of the environment with PyTorch."""
    import torch
    import torch.distributed as dist

    import commgloo  # noqa: F401  registers the backend
    import window

    os.chdir(folder)
    torch.set_num_threads(1)
    dist.init_process_group("commgloo", init_method=f"file://{folder}/store", rank=rank, world_size=4)
    tensor_group = [dist.new_group(ranks) for ranks in ([0, 1], [2, 3])][rank // 2]
    data_group = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])][rank % 2]
    inputs = {elements: torch.randn(elements) for elements in ELEMENTS}
    weights = torch.randn(128, 128)

    def step() -> None:
        for elements, shard in inputs.items():
            for _ in range(2):
                torch.mm(weights, weights)
                whole = torch.empty(2 * elements)
                dist.all_gather_into_tensor(whole, shard, group=tensor_group)
                dist.reduce_scatter_tensor(torch.empty(elements), whole, group=tensor_group)
                dist.all_reduce(shard.clone(), group=data_group)
        dist.barrier()

    window.record(rank, step, True, False, False)
    dist.barrier()
    os._exit(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--venvs", type=Path, default=Path("target/testdata-venvs"))
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank is not None:
        return run_rank(chosen.rank, str(chosen.out))
    import pair
    import venvs

    python = venvs.python_of(chosen.venvs.absolute(), TORCH)
    environment = venvs.environment(python)
    environment["TORCH_EXTENSIONS_DIR"] = str(python.parent.parent / "extensions")
    environment["GLOO_SOCKET_IFNAME"] = DEVICE
    # Compiled once, not by four ranks at a time.
    subprocess.run([python, "-c", "import commgloo"], cwd=HERE, env=environment, check=True)
    first, second = (open_host(name, address) for name, address in HOSTS.items())
    for way in ((first, second), (second, first)):
        threading.Thread(target=carry, args=way, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        ranks = []
        for rank in range(4):
            host = list(HOSTS)[rank // 2]
            command = ["ip", "netns", "exec", host, python, __file__, "--out", folder, "--rank", str(rank)]
            ranks.append(subprocess.Popen(command, env=environment))
        codes = [rank.wait(300) for rank in ranks]
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", name])
        if any(codes):
            sys.exit(f"exit codes {codes}")
        chosen.out.mkdir(parents=True, exist_ok=True)
        for rank in range(4):
            for file in pair.files(rank, False):
                pair.pack(Path(folder) / file, chosen.out / f"{file}.gz")
    print(f"{chosen.out}: torch {venvs.describe(python)['torch']}, link of {DELAY_S} s and {BYTES_PER_S:.0f} bytes a second")


if __name__ == "__main__":
    main()
