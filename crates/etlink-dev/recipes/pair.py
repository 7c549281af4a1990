"""Check one recorded pair, take the host name out of it and pack it."""

import gzip
import io
import json
import re
from dataclasses import dataclass
from pathlib import Path

RECORD_FUNCTION_ID = "Record function id"
EXTERNAL_ID = "External id"
"""All there is before PyTorch 2.4: equals rf_id in one thread as long as no operator is lost."""

HOST_NAME = re.compile(rb'("host_name": )"[^"]*"')
RECIPES = str(Path(__file__).resolve().parent).encode() + b"/"
PATH_IN_TRACE_NAME = re.compile(rb'("traceName": ")[^"]*/')


class BadRecording(Exception):
    """The recording is not what it should be; the message says how."""


@dataclass(frozen=True)
class Figures:
    """What one rank's pair contains. `matched` counts the values of `key` in the device trace that are
    the rf_id of a host node of the same name."""

    schema: str
    host_nodes: int
    device_events: int
    key: str
    matched: int
    host_ids: int
    device_ids: int
    steps: int
    communications: int
    orphans: int
    """Host nodes whose parent is not in the file: still open when the window closed, or lost."""

    def line(self) -> str:
        return (
            f"{self.host_nodes} host nodes, {self.device_events} device events, "
            f"{self.matched} of {self.host_ids} host ids and {self.device_ids} device ids match by "
            f"{self.key}, "
            f"{self.steps} ProfilerSteps, {self.communications} record_param_comms, {self.orphans} orphans"
        )


def host_file(rank: int) -> str:
    return f"torch_et_{rank}.json"


def device_file(rank: int) -> str:
    return f"kineto_trace_{rank}.json"


def files(rank: int, averages: bool) -> list[str]:
    kept = [host_file(rank), device_file(rank)]
    return [*kept, f"key_averages_{rank}.json"] if averages else kept


def load(path: Path) -> dict:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise BadRecording(f"{path.name}: {error}") from error


def attribute(node: dict, name: str):
    """A node's attribute: in the `attrs` list since schema 1.0.2, a plain key in the flat schema 1.0.1."""
    if name in node:
        return node[name]
    return next((a["value"] for a in node.get("attrs", ()) if a["name"] == name), None)


def orphans(nodes: list[dict]) -> int:
    """How many nodes name a parent (`ctrl_deps`, or `parent` in the flat schema 1.0.1) that is not there."""
    present = {node["id"] for node in nodes}
    return sum(node.get("ctrl_deps", node.get("parent")) not in present for node in nodes)


def device_names(events: list[dict], key: str) -> dict[int, str]:
    """Names by the id that the events carry under `key`; 0 is no id."""
    named = ((event.get("args", {}).get(key), event.get("name")) for event in events)
    return {identity: name for identity, name in named if identity}


def figures(folder: Path, rank: int) -> Figures:
    host = load(folder / host_file(rank))
    events = load(folder / device_file(rank))["traceEvents"]
    host_names = {attribute(node, "rf_id"): node["name"] for node in host["nodes"]}
    host_names.pop(0, None)
    key = RECORD_FUNCTION_ID if device_names(events, RECORD_FUNCTION_ID) else EXTERNAL_ID
    names = device_names(events, key)
    return Figures(
        schema=host["schema"],
        host_nodes=len(host["nodes"]),
        device_events=len(events),
        key=key,
        matched=sum(host_names.get(identity) == name for identity, name in names.items()),
        host_ids=len(host_names),
        device_ids=len(names),
        steps=sum(name.startswith("ProfilerStep") for name in host_names.values()),
        communications=sum(name == "record_param_comms" for name in host_names.values()),
        orphans=orphans(host["nodes"]),
    )


def check(found: Figures, steps: int, has_ids: bool, has_communication: bool) -> None:
    """Raise BadRecording unless the pair has the steps, the ids and the communication it must have."""
    if found.steps != steps:
        raise BadRecording(f"{found.steps} ProfilerSteps instead of {steps}")
    if (found.key == RECORD_FUNCTION_ID) != has_ids:
        raise BadRecording(f"the ids of the device trace are {found.key}")
    if has_ids and found.matched < 0.99 * found.device_ids:
        raise BadRecording(f"only {found.matched} of {found.device_ids} device ids are in the host trace")
    if bool(found.communications) != has_communication:
        raise BadRecording(f"{found.communications} record_param_comms nodes")


def scrub(content: bytes) -> bytes:
    """Replace what names this machine or its folders; every other byte stays as PyTorch wrote it."""
    content = HOST_NAME.sub(rb'\1"host"', content).replace(RECIPES, b"")
    return PATH_IN_TRACE_NAME.sub(rb"\1", content)


def pack(source: Path, target: Path) -> None:
    """Scrub and gzip: the same input gives the same bytes (no time, no name in the gzip header)."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", fileobj=packed, mode="wb", compresslevel=9, mtime=0) as stream:
        stream.write(scrub(source.read_bytes()))
    target.write_bytes(packed.getvalue())
