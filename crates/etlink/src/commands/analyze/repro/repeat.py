#!/usr/bin/env python3
"""Repeats ops of a recorded run alone, with random inputs of the recorded shapes, strides and types.

Written by `etlink repro`; needs PyTorch alone. Each op runs on copies of its inputs in turn, so that caches do not
hold them. Times are medians: of the device where there is one, else of the call. Collectives run under
`torchrun --nproc-per-node N`; the others run without it. On a CPU, `--threads` should be the number of the run.
"""
import argparse
import json
import math
import os
import statistics
import sys
import time

import torch

CASES = [
    # CASES
]

DTYPES = {
    "float": torch.float32, "double": torch.float64, "c10::Half": torch.float16, "c10::BFloat16": torch.bfloat16,
    "long int": torch.int64, "long": torch.int64, "int": torch.int32, "short int": torch.int16, "short": torch.int16,
    "signed char": torch.int8, "unsigned char": torch.uint8, "bool": torch.bool,
    "c10::complex<float>": torch.complex64, "c10::complex<double>": torch.complex128,
}  # fmt: skip
for name in ("Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float8_e8m0fnu"):
    if hasattr(torch, name.lower()):
        DTYPES["c10::" + name] = getattr(torch, name.lower())
for name in ("uint16", "uint32", "uint64"):
    if hasattr(torch, name):
        DTYPES[{"uint16": "unsigned short", "uint32": "unsigned int", "uint64": "unsigned long"}[name]] = getattr(torch, name)

# op around each call of torch.distributed
COLLECTIVE = "record_param_comms"
# ops that take much longer on negative numbers, of which they make NaN
OF_POSITIVE = ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow")
# bytes of inputs to go through before one is used again: more than caches hold
COLD_BYTES = 256 << 20


class Refused(Exception):
    """An op that the recording does not describe well enough, or that this PyTorch does not have."""


def value(text):
    """The number, truth value or list that a recorded text means; None for an absent one."""
    if not isinstance(text, str):
        return text
    text = text.strip()
    if text in ("", "None", "<None>"):
        return None
    if text in ("True", "False", "true", "false"):
        return text in ("True", "true")
    if text.startswith("["):
        return [value(part) for part in text[1:-1].split(",") if part.strip()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text


def dtype_of(text):
    """The element type of a recorded type; None if it is no tensor's."""
    if text.startswith("Tensor(") and text.endswith(")"):
        text = text[len("Tensor(") : -1]
    return DTYPES.get(text)


def is_tensor_list(text):
    return text == "TensorList" or text.startswith("GenericList[") and "Tensor(" in text


class Case:
    """One op with one set of inputs."""

    def __init__(self, recorded, device):
        self.recorded = recorded
        self.device = device
        lists = [recorded[name] or "[]" for name in ("shapes", "types", "strides", "values")]
        self.shapes, self.types, self.strides, self.values = (json.loads(text) for text in lists)
        if not self.types:
            raise Refused("its inputs are not recorded (record_shapes)")
        self.shapes += [[]] * (len(self.types) - len(self.shapes))
        self.strides += [None] * (len(self.types) - len(self.strides))
        self.values += [""] * (len(self.types) - len(self.values))
        self.name = recorded["op"]
        self.note = ""

    def packet(self, name):
        space, _, op = name.partition("::")
        try:
            return getattr(getattr(torch.ops, space), op)
        except (AttributeError, RuntimeError):
            raise Refused("not an op of this PyTorch") from None

    def overload(self):
        """The overload that the recorded inputs fit."""
        packet = self.packet(self.name)
        overloads = [getattr(packet, name) for name in packet.overloads()]
        count = len(self.types)
        overloads = [one for one in overloads if len(one._schema.arguments) == count and self.fits(one._schema.arguments)]
        if not overloads:
            raise Refused("its recorded inputs fit no overload")
        return overloads[0]

    def fits(self, arguments):
        for argument, kind, text in zip(arguments, self.types, self.values):
            wanted = str(argument.real_type)
            is_optional = wanted.startswith("Optional[")
            wanted = wanted[len("Optional[") : -1] if is_optional else wanted
            if wanted == "Tensor":
                is_absent = kind in ("", "None") or "nullptr" in kind
                if not (dtype_of(kind) or is_optional and is_absent):
                    return False
            elif is_tensor_list(kind):
                if wanted not in ("List[Tensor]", "List[Optional[Tensor]]"):
                    return False
            elif wanted == "List[Tensor]":
                return False
            elif dtype_of(kind):
                # `float` and `int` are types of tensors in device traces
                return False
            elif value(text) is None:
                if not (is_optional or argument.has_default_value() or wanted == "List[Optional[Tensor]]"):
                    return False
            elif wanted.startswith("List[") and not isinstance(value(text), (list, type(None))):
                return False
            elif wanted in ("int", "float", "number", "bool") and isinstance(value(text), (list, str)):
                return False
        return True

    def arguments(self, overload):
        """Returns a new set of random inputs."""
        arguments = overload._schema.arguments
        rows = list(zip(arguments, self.shapes, self.types, self.strides, self.values))
        limit = self.index_limit(rows)
        args, kwargs, all_made = [], {}, []
        for argument, shape, kind, strides, text in rows:
            if isinstance(text, str) and text.startswith("="):
                made = all_made[int(text[1:])]
            elif argument.name in ("offsets", "offset2bag"):
                made = self.ascending(argument.name, shape, dtype_of(kind))
            elif is_tensor_list(kind):
                made = self.indices(shape) if argument.name == "indices" else self.tensor_list(shape, kind, strides, limit)
            elif dtype_of(kind):
                made = self.tensor(argument.name, shape, dtype_of(kind), strides, limit)
            elif str(argument.real_type) == "List[Optional[Tensor]]":
                raise Refused("its index tensors are not recorded")
            else:
                made = value(text)
                if made is None and argument.has_default_value():
                    made = argument.default_value
            if "Device" in str(argument.real_type):
                made = self.device
            all_made.append(made)
            if argument.kwarg_only:
                kwargs[argument.name] = made
            else:
                args.append(made)
        return args, kwargs

    def index_limit(self, rows):
        """One more than the largest integer that may be an index."""
        named = {argument.name: value(text) for argument, _, _, _, text in rows}
        for name in ("num_weights", "num_classes"):
            if named.get(name):
                return named[name]
        if self.name.startswith("aten::nll_loss"):
            scores = [shape for _, shape, kind, _, _ in rows if dtype_of(kind) and len(shape) > 1]
            return scores[0][1] if scores else 2
        for _, shape, kind, _, _ in rows:
            if dtype_of(kind) and shape:
                dim = named.get("dim")
                return shape[dim if isinstance(dim, int) else 0]
        return 2

    def ascending(self, name, shape, dtype):
        """The indices at which equally long bags begin (offsets), or the bag of each index."""
        count = shape[0]
        # bags are counted by the gradients, which are the first argument of a backward op
        end = self.shapes[1][0] if name == "offsets" else self.shapes[0][0]
        return (torch.arange(count, device=self.device) * end // max(1, count)).to(dtype)

    def indices(self, shapes):
        """Index tensors; those of dimensions that are taken whole are absent."""
        limits = zip(shapes, self.shapes[0])
        return [torch.randint(0, limit, shape, device=self.device) if shape else None for shape, limit in limits]

    def tensor_list(self, shapes, kind, strides, limit):
        kinds = kind[len("GenericList[") : -1].split(",") if kind.startswith("GenericList[") else []
        known = [dtype_of(one) for one in self.types if dtype_of(one)]
        kernel = self.recorded["kernel"]
        named = torch.bfloat16 if "BFloat16" in kernel else torch.float16 if "Half" in kernel else torch.float32
        if not shapes:
            raise Refused("the shapes of its list of tensors are not recorded")
        made = []
        for at, shape in enumerate(shapes):
            dtype = dtype_of(kinds[at]) if at < len(kinds) else known[0] if known else named
            made.append(self.tensor("", shape, dtype or named, strides[at] if strides else None, limit))
        return made

    def tensor(self, name, shape, dtype, strides, limit):
        """A random tensor, with the recorded gaps and overlaps of its elements."""
        device = self.device
        # numbers of Python among tensors are recorded as such without dimensions
        if not shape and dtype in (torch.float64, torch.int64):
            device = "cpu"
        kernel = self.recorded["kernel"]
        if self.name == "aten::copy_" and name == ("src" if kernel.startswith("Memcpy HtoD") else "self"):
            if kernel.startswith(("Memcpy HtoD", "Memcpy DtoH")):
                device = "cpu"
        if not strides or len(strides) != len(shape):
            strides = torch.empty(shape, device="meta").stride()
        size = 1 + sum((length - 1) * stride for length, stride in zip(shape, strides)) if 0 not in shape else 0
        if dtype == torch.bool:
            flat = torch.randint(0, 2, (size,), device=device).bool()
        elif dtype.is_floating_point or dtype.is_complex:
            made = torch.float32 if dtype.itemsize == 1 else dtype
            flat = torch.randn(size, device=device, dtype=made).to(dtype)
            if any(word in name for word in ("var", "std")) or self.name.rstrip("_").endswith(tuple("::" + op for op in OF_POSITIVE)):
                flat = flat.abs()
        else:
            most = {torch.int8: 128, torch.uint8: 256}.get(dtype, limit)
            flat = torch.randint(0, max(1, min(limit, most)), (size,), device=device).to(dtype)
        if device == "cpu" and self.device != "cpu" and "Pinned" in kernel:
            flat = flat.pin_memory()
        return flat.as_strided(shape, strides)

    def equivalent(self):
        """Another op that does the same work, for one that only some devices have."""
        texts = [value(text) for text in self.values]
        make = lambda at: self.tensor("", self.shapes[at], dtype_of(self.types[at]), self.strides[at], 2)
        if self.name in ("aten::cudnn_convolution", "aten::miopen_convolution"):
            # (input, weight, [bias,] padding, stride, dilation, groups, …)
            lists = [text for text in texts if isinstance(text, list)]
            groups = next(text for text in texts if isinstance(text, int) and not isinstance(text, bool))
            padding, stride, dilation = lists[:3]
            bias = make(2) if dtype_of(self.types[2]) else None
            rest = (bias, stride, padding, dilation, False, [0] * len(stride), groups)
            return "aten::convolution", lambda: ((make(0), make(1), *rest), {})
        if "attention" in self.name and "backward" not in self.name and all(len(self.shapes[at]) == 4 for at in range(3)):
            is_causal = any(text is True for text in texts)
            is_heads_last = self.name == "aten::_flash_attention_forward"
            turned = (lambda one: one.transpose(1, 2)) if is_heads_last else (lambda one: one)
            make_all = lambda: ((*(turned(make(at)) for at in range(3)), None, 0.0, is_causal), {})
            return "aten::scaled_dot_product_attention", make_all
        return None

    def call(self):
        """Returns the function to time and a function that makes its inputs."""
        try:
            overload = self.overload()
            args, kwargs = self.arguments(overload)
            overload(*args, **kwargs)
            return overload, lambda: self.arguments(overload)
        except Exception:
            equivalent = self.equivalent()
            if not equivalent:
                raise
        name, make = equivalent
        self.note = f"run as {name}"
        return self.packet(name), make


class Collective(Case):
    """One collective with one size of message, among the ranks that torchrun starts."""

    def call(self):
        import torch.distributed as dist

        if not dist.is_initialized():
            raise Refused("a collective; start this script with torchrun --nproc-per-node N")
        kind = next((text for text in self.values if isinstance(text, str) and text), "")
        # a device trace has the name only in that of the kernel: ncclDevKernel_AllReduce_Sum_bf16_RING_LL
        words = (kind or self.recorded["kernel"]).lower().replace("_", "")
        is_list = is_tensor_list(self.types[0])
        tensors = (self.shapes[0] if is_list else [self.shapes[0]]) if is_list or dtype_of(self.types[0]) else []
        elements = sum(math.prod(shape) for shape in tensors)
        inner = self.types[0][len("GenericList[") : -1].split(",")[0] if is_list else self.types[0]
        dtype, size = dtype_of(inner) or torch.float32, dist.get_world_size()
        # each rank's part of what is scattered
        part = max(1, elements // size)
        make = lambda count: torch.ones(count, device=self.device, dtype=dtype)
        splits = [value(text) for text in self.values if isinstance(value(text), list) and len(value(text)) == size]
        # of the two lists the first has the rows to send; each rank sends as the recorded one did
        rows = splits[0] if len(splits) == 2 else [1] * size
        send = [max(1, elements // max(1, sum(rows))) * count for count in rows]
        receive = [send[dist.get_rank()]] * size
        # the longest names first: an all-reduce is no reduce
        calls = {
            "reducescatter": (dist.reduce_scatter_tensor, lambda: (make(part), make(part * size))),
            "alltoall": (dist.all_to_all_single, lambda: (make(sum(receive)), make(sum(send)), receive, send)),
            "allgather": (dist.all_gather_into_tensor, lambda: (make(elements * size), make(elements))),
            "allreduce": (dist.all_reduce, lambda: (make(elements),)),
            "broadcast": (dist.broadcast, lambda: (make(elements), 0)),
            "barrier": (dist.barrier, lambda: ()),
            "reduce": (dist.reduce, lambda: (make(elements), 0)),
        }
        for name, (call, arguments) in calls.items():
            if name in words:
                self.note = f"{name} among {size} ranks"
                return call, lambda: (arguments(), {})
        raise Refused(f"{kind or 'a communication of an unknown kind'} is not repeated")


def tensors_bytes(args):
    flat = [one for arg in args for one in (arg if isinstance(arg, (list, tuple)) else [arg])]
    return sum(one.untyped_storage().nbytes() for one in flat if isinstance(one, torch.Tensor))


def device_time_ns(call, inputs, iterations):
    """The device's own time of a call, as the profiler measures it."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for at in range(iterations):
            args, kwargs = inputs[at % len(inputs)]
            call(*args, **kwargs)
        torch.cuda.synchronize()
    rows = [event for event in profile.events() if event.device_type == torch.autograd.DeviceType.CUDA]
    return sum(row.time_range.elapsed_us() for row in rows) * 1e3 / iterations


def call_time_ns(call, inputs, iterations):
    times = []
    for at in range(iterations):
        args, kwargs = inputs[at % len(inputs)]
        begin = time.perf_counter_ns()
        call(*args, **kwargs)
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times)


def measure(case, options):
    """Nanoseconds of one call."""
    with torch.no_grad():
        call, make = case.call()
        inputs = [make()]
        bytes = max(1, tensors_bytes(inputs[0][0]))
        copies = min(options.iters, math.ceil(COLD_BYTES / bytes))
        inputs += [make() for _ in range(copies - 1)]
        begin = time.perf_counter()
        for at in range(options.warmup):
            args, kwargs = inputs[at % len(inputs)]
            call(*args, **kwargs)
        if case.device != "cpu":
            torch.cuda.synchronize()
        each = (time.perf_counter() - begin) / max(1, options.warmup)
        iterations = max(3, min(options.iters, int(options.seconds / max(each, 1e-9))))
        on_device = case.device != "cpu" and device_time_ns(call, inputs, iterations)
        return on_device or call_time_ns(call, inputs, iterations)


def run(recorded, options):
    result = {name: recorded.get(name) for name in ("op", "shapes", "types", "strides", "values")}
    result.update(recorded_ns=recorded["recorded_ns"], repeated_ns=None, ratio=None, tflops=None, note="")
    try:
        case = (Collective if recorded["op"] == COLLECTIVE else Case)(recorded, options.device)
        ns = measure(case, options)
    except Refused as error:
        result["note"] = f"not run: {error}"
        return result
    except Exception as error:  # what an op makes of random inputs is its own affair
        result["note"] = f"failed: {type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"
        return result
    result.update(repeated_ns=ns, ratio=ns / recorded["recorded_ns"] if recorded["recorded_ns"] else None, note=case.note)
    if recorded.get("operations"):
        result["tflops"] = recorded["operations"] / ns / 1e3
    return result


def line(result):
    us = lambda ns: "-" if ns is None else f"{ns / 1e3:.3f}"
    number = lambda one: "-" if one is None else f"{one:.3g}"
    shapes = (result["shapes"] or "").replace(" ", "")
    shapes = shapes if len(shapes) <= 44 else shapes[:43] + "…"
    cells = (us(result["recorded_ns"]), us(result["repeated_ns"]), number(result["ratio"]), number(result["tflops"]))
    return f"{result['op'][:40]:40} {shapes:44} {cells[0]:>12} {cells[1]:>12} {cells[2]:>6} {cells[3]:>8}  {result['note']}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--op", help="repeat only ops whose name contains this")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--warmup", type=int, default=5, help="calls before those that are timed")
    parser.add_argument("--iters", type=int, default=50, help="calls that are timed")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for the calls of an op; at least 3 are timed")
    parser.add_argument("--json", metavar="FILE", help="also write the results there")
    parser.add_argument("--threads", type=int, help="threads of an op on a CPU; PyTorch's choice if left out")
    options = parser.parse_args()
    if options.threads:
        torch.set_num_threads(options.threads)
    rank = 0
    if "RANK" in os.environ and any(case["op"] == COLLECTIVE for case in CASES):
        import torch.distributed as dist

        if options.device == "cuda":
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if options.device == "cuda" else "gloo")
        rank = dist.get_rank()
    if rank == 0:
        print(f"{'op':40} {'shapes':44} {'recorded us':>12} {'repeated us':>12} {'ratio':>6} {'TFLOP/s':>8}")
    results = []
    for case in CASES:
        if options.op and options.op not in case["op"]:
            continue
        results.append(run(case, options))
        if rank == 0:
            print(line(results[-1]), flush=True)
    repeated = sum(result["repeated_ns"] is not None for result in results)
    if rank == 0:
        where = f"cpu, {torch.get_num_threads()} threads" if options.device == "cpu" else options.device
        print(f"{repeated} of {len(results)} ran on {where}, PyTorch {torch.__version__}")
        if options.json:
            with open(options.json, "w", encoding="utf-8") as file:
                device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
                json.dump({"device": device, "torch": torch.__version__, "results": results}, file, indent=1)
    return 0 if repeated or not results else 1


if __name__ == "__main__":
    sys.exit(main())
