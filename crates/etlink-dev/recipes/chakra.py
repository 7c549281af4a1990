"""Reads `.et` files with protobuf's own reader, with and without what `--dep-latencies` adds to them.

Usage: chakra.py SCHEMA PLAIN WITH. SCHEMA is Chakra's et_def.proto, the others are folders with files of the same names.
Prints JSON: how many files, nodes, and added attributes by name. Fails where the files differ in anything else.
"""
import json
import sys
from collections import Counter
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet

from et_messages import compile_schema, read_messages

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


schema, plain, added = map(Path, sys.argv[1:])
chakra = compile_schema(schema)
files = sorted(path.name for path in plain.glob("*.et"))
assert files and files == sorted(path.name for path in added.glob("*.et")), files
nodes, found = 0, Counter()
for name in files:
    want, have = read_messages(plain / name, chakra), read_messages(added / name, chakra)
    assert not any(map(unknown_fields, have)), f"{name}: fields that the schema does not know"
    assert want[0] == have[0], f"{name}: other metadata"
    assert len(want) == len(have), f"{name}: {len(have)} messages instead of {len(want)}"
    for one, other in zip(want[1:], have[1:]):
        other = without_added(other, found)
        assert one == other, f"{name}: not the same node:\n{one}\n{other}"
    nodes += len(have) - 1
json.dump({"files": len(files), "nodes": nodes, "added": found}, sys.stdout)
