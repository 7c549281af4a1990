"""Reads `.et` files with protobuf's own reader, with and without what `--dep-latencies` adds to them.

Usage: chakra.py SCHEMA PLAIN WITH. SCHEMA is Chakra's et_def.proto, the others are folders with files of the same names.
Prints JSON: how many files, nodes, and added attributes by name. Fails where the files differ in anything else.
"""
import importlib
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

from google.protobuf.internal.decoder import _DecodeVarint32
from google.protobuf.unknown_fields import UnknownFieldSet
from grpc_tools import protoc

ADDED = ["ctrl_latency_ns", "data_latency_ns", "slack_ns"]


def compile_schema(schema):
    out = tempfile.mkdtemp()
    failed = protoc.main(["protoc", f"-I{schema.parent}", f"--python_out={out}", str(schema)])
    assert not failed, f"{schema} does not compile"
    sys.path.insert(0, out)
    return importlib.import_module(f"{schema.stem}_pb2")


def read(path, chakra):
    """The messages of a file, as Chakra's `decodeMessage` takes them: each after its length."""
    text, at, messages = path.read_bytes(), 0, []
    while at < len(text):
        length, at = _DecodeVarint32(text, at)
        message = chakra.Node() if messages else chakra.GlobalMetadata()
        message.ParseFromString(text[at : at + length])
        at += length
        messages.append(message)
    return messages


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
    want, have = read(plain / name, chakra), read(added / name, chakra)
    assert not any(map(unknown_fields, have)), f"{name}: fields that the schema does not know"
    assert want[0] == have[0], f"{name}: other metadata"
    assert len(want) == len(have), f"{name}: {len(have)} messages instead of {len(want)}"
    for one, other in zip(want[1:], have[1:]):
        other = without_added(other, found)
        assert one == other, f"{name}: not the same node:\n{one}\n{other}"
    nodes += len(have) - 1
json.dump({"files": len(files), "nodes": nodes, "added": found}, sys.stdout)
