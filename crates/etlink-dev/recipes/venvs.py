"""Virtual environments with one PyTorch version each, installed from the package index pip is set up for."""

import os
import subprocess
import sys
from pathlib import Path

from catalog import version_key

MARKER = "etlink-ready"


def python_of(folder: Path, version: str) -> Path:
    """The Python of `folder`/`version`; installs PyTorch (about 5.5 GB on disk) when it is not there yet."""
    venv = folder / version
    python = venv / "bin" / "python"
    if not (venv / MARKER).exists():
        print(f"installing torch {version} into {venv}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir"]
        subprocess.run([*install, *packages(version)], check=True)
        (venv / MARKER).touch()
    return python


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


def add(python: Path, version: str, library: str) -> None:
    """Installs a library of `LIBRARIES`, unless it is there; torch stays as it is."""
    asked = [python, "-m", "pip", "show", "--quiet", library]
    if subprocess.run(asked, capture_output=True).returncode == 0:
        return
    newer, older = LIBRARIES[library]
    wanted = newer if version_key(version) >= (2, 4) else older
    numpy = [package for package in packages(version) if package.startswith("numpy")]
    install = [python, "-m", "pip", "install", "--quiet", "--no-cache-dir", f"torch=={version}"]
    subprocess.run([*install, *numpy, wanted], check=True)


PICKLERS = ("cloudpickle==3.1.3", "dill==0.4.1")


def picklers(python: Path) -> Path:
    """A folder with packages that pickle. torch would import them in all programs if they were in its environment."""
    folder = python.parents[1] / "etlink-picklers"
    ready = folder / MARKER
    if not ready.exists():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--target", folder, *PICKLERS], check=True)
        ready.touch()
    return folder


def describe(python: Path) -> dict[str, str]:
    """The exact versions of PyTorch and Python in the environment."""
    code = "import platform, torch; print(torch.__version__, platform.python_version())"
    output = subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout
    torch_version, python_version = output.split()
    return {"torch": torch_version, "python": python_version}


def environment(python: Path) -> dict[str, str]:
    """Variables of the recorded processes: one thread per operator, ranks talk over the loopback device."""
    return {
        **os.environ,
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        # torchrun's port is always the same, and tests run side by side
        "PET_MASTER_PORT": str(20000 + os.getpid() % 10000),
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
