"""Reads `.et` files with protobuf's own reader: with and without what `--dep-latencies` adds, and with `--attrs minimal`.

Usage: chakra.py SCHEMA PLAIN WITH MINIMAL. SCHEMA is Chakra's et_def.proto, the others are folders with files of the same
names. Prints JSON: how many files, nodes, attributes that are added by name, bytes of the plain and the minimal files. Fails where
the files differ in anything else, or where a node names a text that the first message does not have.
"""
import json
import sys
from collections import Counter
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet

from et_messages import compile_schema, read_messages

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


schema, plain, added, minimal = map(Path, sys.argv[1:])
chakra = compile_schema(schema)
files = sorted(path.name for path in plain.glob("*.et"))
assert files and files == sorted(path.name for path in added.glob("*.et")), files
assert files == sorted(path.name for path in minimal.glob("*.et")), files
nodes, found = 0, Counter()
texts, sizes = 0, [0, 0]
for name in files:
    want, have = read_messages(plain / name, chakra), read_messages(added / name, chakra)
    assert not any(map(unknown_fields, have)), f"{name}: fields that the schema does not know"
    assert want[0] == have[0], f"{name}: other metadata"
    assert len(want) == len(have), f"{name}: {len(have)} messages instead of {len(want)}"
    for one, other in zip(want[1:], have[1:]):
        other = without_added(other, found)
        assert one == other, f"{name}: not the same node:\n{one}\n{other}"
    few = read_messages(minimal / name, chakra)
    assert len(few) == len(want), f"{name}: {len(few)} messages instead of {len(want)}"
    for one, other in zip(want[1:], few[1:]):
        assert as_minimal(one) == other, f"{name}: not what simulators read:\n{one}\n{other}"
    nodes += len(have) - 1
    texts += look_up_texts(want)
    sizes[0] += (plain / name).stat().st_size
    sizes[1] += (minimal / name).stat().st_size
json.dump({"files": len(files), "nodes": nodes, "added": found, "texts": texts, "bytes": sizes}, sys.stdout)
