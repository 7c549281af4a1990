"""Reads what `etlink convert` writes, with the readers of others.

Usage: converted.py SCHEMA FOLDER. SCHEMA is Chakra's et_def.proto. FOLDER has for each graph NAME.et, and of it NAME.json
and NAME.graphml. Prints JSON: how many graphs, nodes and edges were compared.
"""
import json
import sys
from pathlib import Path

import networkx
from google.protobuf import json_format

from et_messages import compile_schema, read_messages


def read_objects(path):
    """Objects one after the other, as `chakra_jsonizer` prints them."""
    decoder, text, at = json.JSONDecoder(), path.read_text(), 0
    while at < len(text):
        value, end = decoder.raw_decode(text, at)
        yield value, text[at:end]
        at = end + len(text[end:]) - len(text[end:].lstrip())


def compare_json(messages, path):
    objects = list(read_objects(path))
    assert len(objects) == len(messages), f"{path}: {len(objects)} objects"
    for message, (value, text) in zip(messages, objects):
        read = json_format.ParseDict(value, type(message)())
        assert read == message, f"{path}: not the same message:\n{message}\n{text}"
        # `chakra_jsonizer` prints each message so
        printed = json.loads(json_format.MessageToJson(message))
        assert printed == value, f"{path}: not as the jsonizer prints it:\n{text}"


def compare_graph(nodes, path):
    graph = networkx.read_graphml(path)
    assert graph.number_of_nodes() == len(nodes), f"{path}: {graph}"
    want = {(f"n{dep}", f"n{node.id}") for node in nodes for dep in [*node.ctrl_deps, *node.data_deps]}
    assert {(start, end) for start, end in graph.edges()} == want, f"{path}: other edges"
    for node in nodes:
        assert graph.nodes[f"n{node.id}"]["name"] == node.name, f"{path}: node {node.id}"
    return graph.number_of_edges()


chakra, folder = compile_schema(Path(sys.argv[1])), Path(sys.argv[2])
counts = {"graphs": 0, "nodes": 0, "edges": 0}
for path in sorted(folder.glob("*.et")):
    messages = read_messages(path, chakra)
    compare_json(messages, path.with_suffix(".json"))
    counts["graphs"] += 1
    counts["nodes"] += len(messages) - 1
    counts["edges"] += compare_graph(messages[1:], path.with_suffix(".graphml"))
    # what protobuf's own writer makes of the messages is what etlink wrote
    again = b"".join(
        json_format.ParseDict(value, type(message)()).SerializeToString()
        for message, (value, _) in zip(messages, read_objects(path.with_suffix(".json")))
    )
    assert again == b"".join(message.SerializeToString() for message in messages), path
json.dump(counts, sys.stdout)
