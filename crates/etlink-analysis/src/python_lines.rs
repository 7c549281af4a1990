//! Lines of the program's Python, from the stacks of a trace.

use etlink_link::LinkedTrace;
use etlink_model::{AuxiliaryKind, ThreadIdx};

/// Maximum number of frames scanned for one instant: frames of other threads can be in between.
const MOST_FRAMES: usize = 10_000;

/// Returns the innermost frame of the program's own Python at an instant on a thread, if the
/// trace has stacks; a library's frame if there is no other. The trace must be read with
/// [auxiliary events](etlink_model::DeviceTrace::auxiliary).
pub fn python_line(trace: &LinkedTrace, thread: ThreadIdx, time: i64) -> Option<String> {
    let frames = &trace.device.auxiliary;
    let last = frames.start.partition_point(|start| start.0 <= time);
    let around = (0..last).rev().take(MOST_FRAMES).filter(|at| {
        // The frames of all threads and the profiler's rows share one table.
        let is_frame = frames.kind[*at] == AuxiliaryKind::Python;
        let end = frames.start[*at] + frames.duration[*at];
        is_frame && frames.thread[*at] == thread && end.0 > time
    });
    let names = around.map(|at| trace.device_name(frames.name[at]));
    let mut lines = names.filter(|name| is_source_line(name)).peekable();
    // Prefer the program's own line, which can be changed, over the libraries it calls.
    let innermost = lines.peek().copied();
    let own = lines.find(|line| !is_library_line(line));
    own.or(innermost).map(short_frame)
}

/// Returns true if a frame of a Python stack is a line of source: `train.py(12): step`.
fn is_source_line(frame: &str) -> bool {
    // Profilers also write frames such as `<built-in function …>` and `nn.Module: Linear_0`.
    !frame.starts_with('<') && !frame.starts_with("nn.Module") && frame.contains(".py(")
}

/// Packages that programs use, by the first part of a frame's path: Kineto omits the folder that
/// contains a package.
const LIBRARIES: [&str; 21] = [
    "torch",
    "torchvision",
    "torchaudio",
    "torch_xla",
    "functorch",
    "triton",
    "triton_kernels",
    "numpy",
    "scipy",
    "pandas",
    "PIL",
    "cv2",
    "jax",
    "jaxlib",
    "accelerate",
    "lightning",
    "pytorch_lightning",
    "deepspeed",
    "tqdm",
    "packaging",
    "einops",
];

/// Modules and packages of Python itself that appear in programs' stacks.
const STANDARD_MODULES: [&str; 40] = [
    "_collections_abc",
    "abc",
    "asyncio",
    "bisect",
    "codecs",
    "collections",
    "concurrent",
    "contextlib",
    "copy",
    "ctypes",
    "dataclasses",
    "enum",
    "functools",
    "gzip",
    "heapq",
    "importlib",
    "inspect",
    "io",
    "json",
    "logging",
    "multiprocessing",
    "os",
    "pathlib",
    "pickle",
    "posixpath",
    "queue",
    "random",
    "re",
    "selectors",
    "shutil",
    "socket",
    "subprocess",
    "tempfile",
    "threading",
    "traceback",
    "types",
    "typing",
    "uuid",
    "warnings",
    "weakref",
];

/// Returns true if a line of source belongs to a library, not to the program.
fn is_library_line(frame: &str) -> bool {
    let path = &frame[..frame.find(".py(").unwrap_or(frame.len())];
    let packages = ["site-packages/", "dist-packages/"];
    let installed = packages.iter().find_map(|folder| path.rsplit_once(folder));
    // `/usr/lib/python3.12/contextlib`
    let standard = path
        .rsplit_once("/python3.")
        .and_then(|(_, rest)| rest.split_once('/'));
    let own = installed.or(standard).map_or(path, |(_, rest)| rest);
    let first = own.split('/').next().unwrap_or_default();
    own.starts_with("<frozen")
        || LIBRARIES.contains(&first)
        || STANDARD_MODULES.contains(&first)
        || (installed.is_none() && standard.is_some())
}

/// Shortens a frame to the last parts of its path: `site-packages/torch/x/y.py(3): f` becomes
/// `x/y.py(3): f`.
fn short_frame(frame: &str) -> String {
    let path_end = frame.find(".py(").unwrap_or(0);
    let slashes: Vec<usize> = frame[..path_end]
        .match_indices('/')
        .map(|(at, _)| at)
        .collect();
    let cut = slashes.len().checked_sub(2).map(|at| slashes[at] + 1);
    frame[cut.unwrap_or(0)..].to_owned()
}
