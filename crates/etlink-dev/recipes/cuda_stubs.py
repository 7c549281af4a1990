"""Stands in for the CUDA libraries that PyTorch's wheel is linked with: 4 GB that no recipe calls.

PyPI has PyTorch for Linux with CUDA alone. Its libraries load only if all that they are linked with is there: so there is a
library for each that is missing, with every symbol that they ask for. All functions return an error, and
PyTorch finds no device.
"""

import collections
import re
import subprocess
import tempfile
from pathlib import Path

NOT_THERE = re.compile(r"lib(cu|nv|nccl)")
"""Libraries of NVIDIA's packages and of its driver."""
SYMBOL = re.compile(r"(_?_?cu|nv|p?nccl)", re.IGNORECASE)
NO_DEVICE = 100
SPECIAL = {
    "cudaGetDeviceCount": f"int cudaGetDeviceCount(int *count) {{ if (count) *count = 0; return {NO_DEVICE}; }}",
    "cudaGetLastError": "int cudaGetLastError(void) { return 0; }",
    "cudaPeekAtLastError": "int cudaPeekAtLastError(void) { return 0; }",
    "__cudaRegisterFatBinary": "void **__cudaRegisterFatBinary(void *code) { static void *handle[8]; return handle; }",
    "cuptiGetResultString": 'int cuptiGetResultString(int result, const char **text) { if (text) *text = "none"; return 0; }',
}
TEXT = re.compile(r"(Get|get)(Last)?(Error|Status)(String|Name)?$|GetErrorString$")
VERSION = re.compile(r"Get(Cudart|Driver|Runtime)?Version$")


def output(*line) -> str:
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout


def function(symbol: str) -> str:
    if symbol in SPECIAL:
        return SPECIAL[symbol]
    if TEXT.search(symbol) and not re.match("cu[A-Z]", symbol):
        return f'const char *{symbol}(void) {{ return "none"; }}'
    return f"int {symbol}(void) {{ return {0 if VERSION.search(symbol) else 999}; }}"


def libraries(folder: Path) -> dict[str, dict[str, set[str]]]:
    """Symbols of each missing library by their version; those without a version are the last one's."""
    own = sorted(path for path in folder.iterdir() if ".so" in path.suffixes)
    needed, undefined, defined, versions = {}, set(), set(), {}
    for path in own:
        for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", path)):
            needed[name] = None
        library = None
        for line in output("readelf", "-VW", path).splitlines():
            if found := re.search(r"File: (\S+)", line):
                library = found[1]
            if found := re.search(r"Name: (\S+)\s+Flags", line):
                versions[found[1]] = library
        for line in output("nm", "-D", path).splitlines():
            *_, kind, symbol = line.split()
            (undefined if kind in "Uw" else defined).add(symbol)
    there = {path.name for path in own}
    missing = {name: collections.defaultdict(set) for name in needed if NOT_THERE.match(name) and name not in there}
    defined = {symbol.partition("@")[0] for symbol in defined}
    for symbol in undefined:
        name, _, version = symbol.partition("@")
        version = version.lstrip("@")
        if versions.get(version) in missing:
            missing[versions[version]][version].add(name)
        elif not version and name not in defined and SYMBOL.match(name):
            missing[list(missing)[-1]][""].add(name)
    return missing


def write(folder: Path) -> None:
    """Puts the libraries beside PyTorch's own, which look there first."""
    missing = libraries(folder)
    with tempfile.TemporaryDirectory() as name:
        source, script = Path(name, "stub.c"), Path(name, "versions")
        for library, versions in missing.items():
            symbols = sorted(set().union(*versions.values()))
            source.write_text("\n".join(map(function, symbols)) + "\n")
            script.write_text("".join(
                f"{version} {{ global: {' '.join(f'{symbol};' for symbol in sorted(names))} }};\n"
                for version, names in sorted(versions.items()) if version
            ))
            line = ["gcc", "-w", "-shared", "-fPIC", "-fno-builtin", source, "-o", folder / library, f"-Wl,-soname,{library}"]
            if script.stat().st_size:
                line.append(f"-Wl,--version-script,{script}")
            subprocess.run(line, check=True)
