"""Reads `.et` files with protobuf's own reader."""

import importlib
import sys
import tempfile

from google.protobuf.internal.decoder import _DecodeVarint32
from grpc_tools import protoc


def compile_schema(schema):
    """Chakra's et_def.proto as a module."""
    out = tempfile.mkdtemp()
    failed = protoc.main(["protoc", f"-I{schema.parent}", f"--python_out={out}", str(schema)])
    assert not failed, f"{schema} does not compile"
    sys.path.insert(0, out)
    return importlib.import_module(f"{schema.stem}_pb2")


def read_messages(path, chakra):
    """The messages of a file, as Chakra's `decodeMessage` takes them: each after its length."""
    text, at, messages = path.read_bytes(), 0, []
    while at < len(text):
        length, at = _DecodeVarint32(text, at)
        message = chakra.Node() if messages else chakra.GlobalMetadata()
        message.ParseFromString(text[at : at + length])
        at += length
        messages.append(message)
    return messages
