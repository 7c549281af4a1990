"""Virtual environments with one PyTorch version each, installed by uv from the package index that pip is set up for."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import cuda_stubs
from catalog import version_key

MARKER = "etlink-ready"
UV = "uv==0.13.8"
"""Installs in a tenth of pip's time."""


def uv(folder: Path) -> list[str | Path]:
    """The command: that of the variable UV or of PATH, or installed by pip into a folder beside the environments."""
    there = os.environ.get("UV") or shutil.which("uv")
    place = folder / UV
    if not there and not (place / MARKER).exists():
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", place, UV], check=True)
        (place / MARKER).touch()
    return [there or place / "bin" / "uv", "--quiet"]


def install(python: Path, *words: str | Path) -> None:
    """Installs packages into an environment."""
    subprocess.run([*uv(python.parents[2]), "pip", "install", "--python", python, *words], check=True)


def python_of(folder: Path, version: str) -> Path:
    """The Python of `folder`/`version`; installs PyTorch when it is not there yet.

    That takes 1.3 GB of disk, and 4 GB more for CUDA on a machine that has an NVIDIA driver.
    """
    venv = folder / version
    python = venv / "bin" / "python"
    if not (venv / MARKER).exists():
        print(f"installing torch {version} into {venv}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([*uv(folder), "venv", "--clear", "--seed", "--python", sys.executable, venv], check=True)
        if shutil.which("nvidia-smi") is None:
            install_without_cuda(python, version)
        install(python, *packages(version))
        # Python's own compiled files: programs of the tests write none
        subprocess.run([python, "-c", "import torch._dynamo"], check=True)
        (venv / MARKER).touch()
    return python


def install_without_cuda(python: Path, version: str) -> None:
    """Installs PyTorch alone, with libraries in place of CUDA's that do nothing."""
    # a cache would hold links to the files that are changed here
    install(python, "--no-cache", "--no-deps", f"torch=={version}")
    (torch,) = python.parents[1].glob("lib/python*/site-packages/torch")
    forget_cuda(torch.parent)
    cuda_stubs.write(torch / "lib")


def forget_cuda(site: Path) -> None:
    """Takes CUDA and Triton off what torch needs: installers of other packages would bring them."""
    (metadata,) = site.glob("torch-*.dist-info/METADATA")
    cuda = re.compile(r"Requires-Dist: (nvidia|cuda|triton)")
    lines = metadata.read_text().splitlines(keepends=True)
    metadata.write_text("".join(line for line in lines if not cuda.match(line)))


def packages(version: str) -> list[str]:
    """torch and what it does not bring: numpy of the right age, setuptools and ninja to build commgloo."""
    numpy = "numpy<2" if version_key(version) < (2, 3) else "numpy"
    return [f"torch=={version}", numpy, "setuptools<82", "ninja"]


LIBRARIES = {
    "transformers": ("transformers==5.23.0", "transformers==4.44.2"),
    "accelerate": ("accelerate==1.15.0", "accelerate==0.33.0"),
    "lightning": ("lightning==2.6.6", "lightning==2.4.0"),
}
"""Libraries over torch: the version for PyTorch 2.4 and newer, and that for older ones."""


def add(python: Path, version: str, libraries: tuple[str, ...]) -> None:
    """Installs libraries of `LIBRARIES`, unless they are there; torch stays as it is."""
    wanted = [LIBRARIES[library][version_key(version) < (2, 4)] for library in libraries]
    install(python, *packages(version), *wanted)


PICKLERS = ("cloudpickle==3.1.3", "dill==0.4.1")


def picklers(python: Path) -> Path:
    """A folder with packages that pickle. torch would import them in all programs if they were in its environment."""
    folder = python.parents[1] / "etlink-picklers"
    ready = folder / MARKER
    if not ready.exists():
        install(python, "--target", folder, *PICKLERS)
        ready.touch()
    return folder


def describe(python: Path) -> dict[str, str]:
    """The exact versions of PyTorch and Python in the environment."""
    code = "import platform, torch; print(torch.__version__, platform.python_version())"
    output = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    torch_version, python_version = output.split()
    return {"torch": torch_version, "python": python_version}


def environment(python: Path, *before: Path) -> dict[str, str]:
    """Variables of the recorded processes: one thread per operator, ranks talk over the loopback device.

    `before`: folders with programs that go before those of the environment.
    """
    places = [*map(str, before), str(python.parent), os.environ["PATH"]]
    return {
        **os.environ,
        "PATH": os.pathsep.join(places),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # torchrun's port is always the same, and tests run side by side
        "PET_MASTER_PORT": str(20000 + os.getpid() % 10000),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
