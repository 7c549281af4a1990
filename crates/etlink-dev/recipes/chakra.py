"""Reads `.et` files with protobuf's own reader: with and without what `--dep-latencies` adds, and with `--attrs minimal`.

Usage: chakra.py DRAWN [--schema FILE]. DRAWN is a folder with the traces of two ranks; recorded ones are read too. Fails if the
files differ in anything else, or if a node names a text that the first message does not have.
"""
import argparse
from collections import Counter
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet

from command import PAIRS, ROOT, etlink
from et_messages import compile_schema, read_messages

RECORDED = ("ddp2-2.15.0", "pipeline4-2.15.0", "transformer-2.15.0")
FORMS = {"plain": (), "with": ("--dep-latencies",), "minimal": ("--attrs", "minimal")}

# What feeders and simulators ask nodes for: et_feeder_node_attr.h of feeder_v3.
READ = {"is_cpu_op", "num_ops", "tensor_size", "comm_type", "comm_size", "comm_src", "comm_dst", "comm_tag", "pg_name"}
ADDED = ["ctrl_latency_ns", "data_latency_ns", "slack_ns"]


def unknown_fields(message):
    """What the schema has no name for, in the message and in its attributes."""
    return len(UnknownFieldSet(message)) + sum(len(UnknownFieldSet(one)) for one in message.attr)


def without_added(node, found):
    """The node as it would be without the option. Each list has a number for each dependency."""
    deps = {"ctrl_latency_ns": len(node.ctrl_deps), "data_latency_ns": len(node.data_deps)}
    kept = []
    for attribute in node.attr:
        if attribute.name not in ADDED:
            kept.append(attribute)
            continue
        found[attribute.name] += 1
        want = "int64_list" if attribute.name in deps else "int64_val"
        assert attribute.WhichOneof("value") == want, f"node {node.id}: {attribute}"
        if attribute.name in deps:
            numbers = len(attribute.int64_list.values)
            assert numbers == deps[attribute.name], f"node {node.id}: {numbers} in {attribute.name}"
    plain = type(node)()
    plain.CopyFrom(node)
    del plain.attr[:]
    plain.attr.extend(kept)
    return plain


def as_minimal(node):
    """The node as it would be with `--attrs minimal`."""
    plain = type(node)()
    plain.CopyFrom(node)
    for field in ("start_time_micros", "inputs", "outputs", "attr"):
        plain.ClearField(field)
    plain.attr.extend(one for one in node.attr if one.name in READ)
    return plain


def look_up_texts(messages):
    """Looks up each text that a node names by its number. How many there are."""
    lists = {one.name: one.string_list.values for one in messages[0].attr if one.WhichOneof("value") == "string_list"}
    looked_up = []
    for node in messages[1:]:
        for one in node.attr:
            if one.name == "op_schema" and one.WhichOneof("value") == "uint64_val":
                looked_up.append(lists["op_schemas"][one.uint64_val])
        for types in (node.inputs.types, node.outputs.types):
            if types.startswith("#"):
                looked_up.append(lists["argument_types"][int(types[1:])])
    return len(looked_up)


def compare(plain, added, minimal):
    """Compares the files of three folders, and returns their figures."""
    files = sorted(path.name for path in plain.glob("*.et"))
    for folder in (added, minimal):
        assert files and files == sorted(path.name for path in folder.glob("*.et")), files
    nodes, texts, sizes, found = 0, 0, [0, 0], Counter()
    for name in files:
        want, have, few = (read_messages(folder / name, chakra) for folder in (plain, added, minimal))
        assert not any(map(unknown_fields, have)), f"{name}: fields that the schema does not know"
        assert want[0] == have[0], f"{name}: other metadata"
        assert len(want) == len(have) == len(few), f"{name}: {len(have)} and {len(few)} messages instead of {len(want)}"
        for one, other, small in zip(want[1:], have[1:], few[1:]):
            assert one == without_added(other, found), f"{name}: not the same node:\n{one}\n{other}"
            assert as_minimal(one) == small, f"{name}: not what simulators read:\n{one}\n{small}"
        nodes += len(have) - 1
        texts += look_up_texts(want)
        sizes = [sum_ + (folder / name).stat().st_size for sum_, folder in zip(sizes, (plain, minimal))]
    return nodes, texts, sizes, found


options = argparse.ArgumentParser()
options.add_argument("drawn", type=Path)
options.add_argument("--schema", type=Path, default=ROOT / "schemas/chakra/et_def.proto")
options = options.parse_args()
chakra = compile_schema(options.schema)
all_texts, all_added = 0, Counter()
for traces in (options.drawn, *(PAIRS / name for name in RECORDED)):
    written = [ROOT / "target/chakra/written" / traces.name / form for form in FORMS]
    for folder, arguments in zip(written, FORMS.values()):
        etlink("merge", "--overwrite", traces, *arguments, "-o", folder)
    nodes, texts, sizes, added = compare(*written)
    all_texts += texts
    all_added += added
    print(f"{traces.name}: {nodes} nodes are equal; bytes per node {sizes[0] // nodes}, minimal {sizes[1] // nodes}")
assert all(all_added[name] for name in ADDED), f"nothing was compared: {all_added}"
assert all_texts, "no node names a text of the first message"
