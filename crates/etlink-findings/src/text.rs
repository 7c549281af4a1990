//! Names and figures in sentences.

/// Formats a time with three digits, in the unit that fits it.
pub(crate) fn time_text(ns: i64) -> String {
    let (value, unit) = match ns.unsigned_abs() {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} {unit}")
}

/// Formats a share in percent.
pub(crate) fn percent_text(share: f64) -> String {
    debug_assert!(share <= 1.0 + 1e-9, "{share} of a whole");
    let percent = 100.0 * share;
    match percent.abs() {
        small if small < 9.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Formats a count of something, with a plural if needed.
pub(crate) fn count_text(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Maximum length of a name in a sentence: kernel names can fill screens.
const MOST_LETTERS: usize = 60;

/// Shortens a name for a sentence, without control characters.
pub(crate) fn short_name(name: &str) -> String {
    let plain: String = name
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect();
    // The return type and the parameters of a demangled name do not help to identify it.
    let plain = plain.strip_prefix("void ").unwrap_or(&plain);
    if plain.chars().count() <= MOST_LETTERS {
        return plain.to_owned();
    }
    let head: String = plain.chars().take(MOST_LETTERS - 1).collect();
    head + "…"
}

/// Returns true if a frame of a Python stack is a line of source: `train.py(12): step`.
pub(crate) fn is_source_line(frame: &str) -> bool {
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
pub(crate) fn is_library_line(frame: &str) -> bool {
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
pub(crate) fn short_frame(frame: &str) -> String {
    let path_end = frame.find(".py(").unwrap_or(0);
    let slashes: Vec<usize> = frame[..path_end]
        .match_indices('/')
        .map(|(at, _)| at)
        .collect();
    let cut = slashes.len().checked_sub(2).map(|at| slashes[at] + 1);
    frame[cut.unwrap_or(0)..].to_owned()
}

/// Returns the sum of times, saturating for damaged traces.
pub(crate) fn sum_ns(values: impl IntoIterator<Item = i64>) -> i64 {
    values.into_iter().fold(0, i64::saturating_add)
}

/// Returns the mean; 0 for an empty list.
pub(crate) fn mean_ns(values: &[i64]) -> i64 {
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let mean = sum / values.len().max(1) as i128;
    i64::try_from(mean).unwrap_or(i64::MAX)
}
