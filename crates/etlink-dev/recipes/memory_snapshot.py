"""Writes a snapshot of PyTorch's CUDA allocator without a GPU: `python3 memory_snapshot.py FILE`.

A model of the allocator runs two training steps of three layers: blocks of 512 bytes, segments of 2 MiB and 20 MiB, as
`c10/cuda/CUDACachingAllocator.cpp`. The values have the form of `torch/csrc/cuda/memory_snapshot.cpp` (2.11), are
pickled as `torch.cuda.memory._dump_snapshot` does, and share frames and stacks as `py_symbolize` does. The backward
pass runs on a thread without Python frames. Weights of the first layer are older than the history.
"""

import pickle
import sys

MIB = 1 << 20
START_US = 1_764_000_000_000_000
TORCH = "/opt/venv/lib/python3.11/site-packages/torch/nn/modules/"
PROGRAM = "/home/user/project/model/"


def frame(path, line, name):
    return {"name": name, "filename": path, "line": line}


MAIN = frame("/home/user/project/train.py", 61, "<module>")
STEP = frame("/home/user/project/train.py", 31, "train_step")
CALL = frame(TORCH + "module.py", 1775, "_call_impl")
LINEAR = frame(TORCH + "linear.py", 134, "forward")
BUILD = frame(PROGRAM + "net.py", 12, "__init__")
STACKS = {
    "weights": [BUILD, MAIN],
    "activations": [LINEAR, CALL, frame(PROGRAM + "net.py", 20, "forward"), CALL, STEP, MAIN],
    "attention": [frame(PROGRAM + "attention.py", 44, "scores"), CALL, STEP, MAIN],
    "gradients": [],
    "state": [frame("/opt/venv/lib/python3.11/site-packages/torch/optim/adam.py", 171, "_init_group"), STEP, MAIN],
}


class Allocator:
    def __init__(self):
        self.segments = []
        self.trace = []
        self.blocks = {}
        self.history = True
        self.next = 0x7F0000000000
        self.now = START_US

    def event(self, action, addr, size, frames):
        self.now += 10
        if self.history:
            entry = {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": self.now}
            entry.update(compile_context="N/A", user_metadata="", frames=frames)
            self.trace.append(entry)

    def segment_of(self, size):
        for segment in self.segments:
            free = segment["total_size"] - sum(block["size"] for block in segment["blocks"])
            if free >= size:
                return segment
        total = 2 * MIB if size <= MIB else 20 * MIB if size <= 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        segment = {"device": 0, "address": self.next, "total_size": total, "stream": 0, "blocks": [], "next": self.next}
        segment["segment_type"] = "small" if total == 2 * MIB else "large"
        self.next += total
        self.segments.append(segment)
        self.event("segment_alloc", segment["address"], total, STACKS["activations"])
        return segment

    def alloc(self, size, kind):
        rounded = -(-size // 512) * 512
        segment = self.segment_of(rounded)
        address = segment["next"]
        segment["next"] += rounded
        block = {"address": address, "size": rounded, "requested_size": size, "state": "active_allocated"}
        block["frames"] = STACKS[kind] if self.history else []
        segment["blocks"].append(block)
        self.blocks[address] = (segment, block)
        self.event("alloc", address, size, STACKS[kind])
        return address

    def free(self, address):
        segment, block = self.blocks.pop(address)
        self.event("free_requested", address, block["requested_size"], [])
        self.event("free_completed", address, block["requested_size"], [])
        segment["blocks"].remove(block)

    def snapshot(self):
        segments = []
        for segment in self.segments:
            blocks = [dict(block) for block in segment["blocks"]]
            held = sum(block["size"] for block in blocks)
            rest = segment["total_size"] - held
            if rest:
                last = {"address": segment["address"] + held, "size": rest, "requested_size": 0, "state": "inactive"}
                blocks.append(dict(last, frames=[]))
            of = {key: value for key, value in segment.items() if key not in ("blocks", "next")}
            of.update(allocated_size=held, active_size=held, requested_size=held, segment_pool_id=(0, 0))
            segments.append(dict(of, is_expandable=False, frames=[], blocks=blocks))
        settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False}
        return {
            "segments": segments,
            "device_traces": [self.trace, []],
            "allocator_settings": settings,
            "external_annotations": [],
        }


def main():
    allocator = Allocator()
    allocator.history = False
    allocator.alloc(4 * MIB, "weights")
    old = allocator.alloc(3 * MIB, "weights")
    allocator.history = True
    for _ in range(2):
        allocator.alloc(1000 * 1000, "weights")
    for step in range(2):
        activations = [allocator.alloc(5 * MIB + 100, "activations") for _ in range(6)]
        scores = allocator.alloc(12 * MIB, "attention")
        gradients = []
        for activation in reversed(activations):
            gradients.append(allocator.alloc(4 * MIB, "gradients"))
            allocator.free(activation)
        allocator.free(scores)
        if step == 0:
            allocator.free(old)
            for _ in range(3):
                allocator.alloc(2 * MIB, "state")
        for gradient in gradients:
            allocator.free(gradient)
    allocator.now += 10
    failed = {"action": "oom", "device_free": 9 * MIB, "size": 700 * MIB, "stream": 0, "time_us": allocator.now}
    failed.update(compile_context="N/A", user_metadata="", frames=STACKS["attention"])
    allocator.trace.append(failed)
    with open(sys.argv[1], "wb") as file:
        pickle.dump(allocator.snapshot(), file)


main()
