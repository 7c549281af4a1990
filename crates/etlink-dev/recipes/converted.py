"""Reads what `etlink convert` writes, with the readers of others.

Usage: converted.py [--goal-parser PROGRAM] [--sarif-schema FILE] [--chakra FOLDER]. Needs Graphviz. The parser is LogGOPSim's
`txt2bin`; the schema is SARIF's, for the findings of `check` on its corpus; the folder is a checkout of mlcommons/chakra, whose
converter reads merged JSON.
"""
import argparse
import gzip
import importlib
import json
import shutil
import sys
import types
from pathlib import Path

import networkx
from google.protobuf import json_format

from command import PAIRS, ROOT, etlink, run
from et_messages import compile_schema, read_messages

THREADS = ("tpdp4-2.15.0", "threads-2.15.0")
RECORDED = ("tpdp4-2.15.0", "pipeline4-2.15.0", "transformer-2.15.0")


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


def convert_run(folder, graphs, name):
    """Converts each rank to JSON and GraphML, a part of it to a picture, and all ranks to GOAL."""
    for graph in graphs.glob("*.et"):
        copy = shutil.copy(graph, folder / graph.name)
        for ending in (".json", ".graphml"):
            etlink("convert", copy, copy.with_suffix(ending))
        picture = copy.with_suffix(".dot")
        etlink("convert", "--range", "20..80", copy, picture)
        run("dot", "-Tsvg", picture, "-o", picture.with_suffix(".svg"))
    for collectives in ("ring", "tree", "pairwise"):
        goal = folder / f"{name}-{collectives}.goal"
        etlink("convert", "--collectives", collectives, graphs, goal)
        if options.goal_parser:
            run(options.goal_parser, "-i", goal, "-o", goal.with_suffix(".bin"))


def compare_graphs(folder):
    """Compares all graphs, and returns the numbers of graphs, nodes and edges."""
    graphs, nodes, edges = 0, 0, 0
    for path in sorted(folder.glob("*.et")):
        messages = read_messages(path, chakra)
        compare_json(messages, path.with_suffix(".json"))
        graphs, nodes = graphs + 1, nodes + len(messages) - 1
        edges += compare_graph(messages[1:], path.with_suffix(".graphml"))
        # what protobuf's own writer makes of the messages is what etlink wrote
        again = b"".join(
            json_format.ParseDict(value, type(message)()).SerializeToString()
            for message, (value, _) in zip(messages, read_objects(path.with_suffix(".json")))
        )
        assert again == b"".join(message.SerializeToString() for message in messages), path
    assert edges, "no edge was compared"
    return graphs, nodes, edges


def thread_deps(document):
    """The node of another thread that each node waits for; it had ended, and comes before."""
    nodes = {node["id"]: node for node in document["nodes"]}
    deps = {node["id"]: node["inter_thread_dep"] for node in nodes.values() if node.get("inter_thread_dep")}
    for waiting, awaited in deps.items():
        assert awaited < waiting, f"{waiting} waits for {awaited}"
        one, other = nodes[awaited], nodes[waiting]
        assert one["ts"] + one["inclusive_dur"] <= other["ts"] + 0.001, f"{awaited} ends after {waiting} starts"
    return deps


def chakra_converter(folder):
    """The converter of a checkout, with the schema of etlink's repository."""
    for name, path in (("chakra", folder), ("chakra.src", folder / "src"), ("chakra.schema", None)):
        sys.modules[name] = types.ModuleType(name)
        sys.modules[name].__path__ = [str(path)] if path else []
    sys.modules["chakra.schema.protobuf"] = types.ModuleType("chakra.schema.protobuf")
    sys.modules["chakra.schema.protobuf"].et_def_pb2 = chakra
    sys.modules["chakra.schema.protobuf.et_def_pb2"] = chakra
    return importlib.import_module("chakra.src.converter.pytorch_converter").PyTorchConverter()


def compare_threads(name):
    """Compares dependencies between threads in merged JSON with what the converter makes of them; returns their number."""
    trees, found = files.parent / "trees" / name, 0
    etlink("merge", "--overwrite", "--format", "etplus", PAIRS / name, "-o", trees)
    for tree in sorted(trees.glob("*.json.gz")):
        text = gzip.decompress(tree.read_bytes())
        deps = thread_deps(json.loads(text))
        found += len(deps)
        if options.chakra:
            plain = tree.with_suffix("")
            plain.write_bytes(text)
            graph = plain.with_suffix(".converted")
            # a cycle ends it with an error
            chakra_converter(options.chakra).convert(str(plain), str(graph), False)
            nodes = {node.id: node for node in read_messages(graph, chakra)[1:]}
            for waiting, awaited in deps.items():
                assert awaited in nodes[waiting].data_deps, f"{tree}: {waiting} does not wait for {awaited}"
    assert found, f"{name}: no node waits for another thread"
    return found


options = argparse.ArgumentParser()
options.add_argument("--goal-parser", type=Path)
options.add_argument("--sarif-schema", type=Path)
options.add_argument("--chakra", type=Path)
options = options.parse_args()
chakra = compile_schema(ROOT / "schemas/chakra/et_def.proto")
files = ROOT / "target/converted/files"
shutil.rmtree(files, ignore_errors=True)
files.mkdir(parents=True)
for name in RECORDED:
    graphs = files.parent / "runs" / name
    etlink("merge", "--overwrite", PAIRS / name, "-o", graphs)
    convert_run(files, graphs, name)
print("{} graphs, {} nodes, {} edges: as protobuf and networkx read them".format(*compare_graphs(files)))
print(sum(map(compare_threads, THREADS)), "dependencies between threads")
if options.sarif_schema:
    from sarif import validate

    validate(options.sarif_schema, etlink("check", "--format", "sarif", ROOT / "testdata/check", check=False))
