"""Records JAX on the CPU: a profile in protobuf and the trace JSON that JAX makes of it, of two programs.

Usage: python crates/etlink-dev/recipes/jax_profiles.py --out testdata/jax, with a Python that has jax and jaxlib.
"""
import argparse
import os
import pathlib
import shutil
import tempfile

# Two devices of the CPU, which must be asked for before JAX is loaded.
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

# Programs in the profile name their source files: by their names alone.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


@jax.jit
def train_step(weights, batch):
    """A step of two layers with plain gradient descent."""

    def loss(weights):
        hidden = jnp.tanh(batch @ weights["first"])
        return jnp.mean((hidden @ weights["second"]) ** 2)

    value, gradients = jax.value_and_grad(loss)(weights)
    return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients), value


def run_mlp():
    """Three marked steps on one device."""
    weights = {"first": jnp.ones((64, 128)), "second": jnp.ones((128, 16))}
    batch = jnp.ones((32, 64))

    def steps(count):
        nonlocal weights
        for number in range(count):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                weights, value = train_step(weights, batch)
                value.block_until_ready()

    return steps


def run_sharded():
    """A product of a matrix that lies on two devices: an all-gather, and an all-reduce of the sum."""
    mesh = Mesh(jax.devices(), ("devices",))
    matrix = jax.device_put(jnp.ones((8, 64)), NamedSharding(mesh, PartitionSpec("devices")))
    product = jax.jit(lambda matrix: jnp.sum(matrix @ matrix.T))

    def steps(count):
        for _ in range(count):
            product(matrix).block_until_ready()

    return steps


def record(steps, frames, folder):
    """Compiles, then records three steps. Gives the two files."""
    steps(1)
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = frames
    with jax.profiler.trace(folder, profiler_options=options):
        steps(3)
    found = pathlib.Path(folder).rglob("*")
    return {"".join(file.suffixes[-2:]): file for file in found if file.suffix in (".pb", ".gz")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    out = parser.parse_args().out
    for name, program, frames in (("mlp", run_mlp, 1), ("sharded2", run_sharded, 0)):
        case = out / f"{name}-{jax.__version__}"
        case.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            files = record(program(), frames, folder)
            shutil.copy(files[".xplane.pb"], case / "host.xplane.pb")
            shutil.copy(files[".json.gz"] if ".json.gz" in files else files[".trace.json.gz"], case / "host.trace.json.gz")


main()
