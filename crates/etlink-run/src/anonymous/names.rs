//! Replacements of names, the same in all files of a run.

use indexmap::IndexSet;

use std::collections::{BTreeMap, BTreeSet};

/// Annotations of PyTorch and of serving engines that say nothing of the program.
const KNOWN_ANNOTATIONS: [&str; 22] = [
    "ProfilerStep#",
    "enumerate(DataLoader)#_",
    "DistributedDataParallel.",
    "FullyShardedDataParallel.",
    "FSDP::",
    "DDP.",
    "nccl:",
    "gloo:",
    "mpi:",
    "ucc:",
    "c10d::",
    "record_param_comms",
    "PyTorch Profiler",
    "Iteration Start: PyTorch Profiler",
    "Record Window End",
    "## process_group:init ##",
    "## Call CompiledFxGraph",
    "Torch-Compiled Region",
    "CompiledFunction",
    "autograd::",
    "aten::",
    "[pytorch|profiler|",
];

/// Optimizers of PyTorch, whose names are kept.
const OPTIMIZERS: [&str; 14] = [
    "SGD",
    "Adam",
    "AdamW",
    "Adagrad",
    "Adadelta",
    "Adamax",
    "ASGD",
    "LBFGS",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "Adafactor",
];

/// Process groups that PyTorch names itself.
const GROUPS: [&str; 4] = ["", "default_pg", "undefined", "default"];

const DEVICES: [&str; 8] = ["cpu", "cuda", "hip", "xpu", "mps", "meta", "hpu", "mtia"];

/// Texts that were replaced, by kind, in the order in which they were first seen.
#[derive(Default)]
pub(super) struct Names {
    texts: BTreeMap<&'static str, IndexSet<String>>,
    left_out: BTreeSet<String>,
}

impl Names {
    /// Returns the replacement of a text: its kind and its number among those of the kind.
    pub(super) fn replace(&mut self, kind: &'static str, text: &str) -> String {
        let (number, _) = self
            .texts
            .entry(kind)
            .or_default()
            .insert_full(text.to_owned());
        format!("{kind}_{number}")
    }

    pub(super) fn leave_out(&mut self, field: &str) {
        self.left_out.insert(field.to_owned());
    }

    pub(super) fn replaced(&self) -> usize {
        self.texts.values().map(IndexSet::len).sum()
    }

    pub(super) fn left_out(self) -> Vec<String> {
        self.left_out.into_iter().collect()
    }

    /// Returns an annotation of the program. The number at its end stays: it may count steps.
    pub(super) fn annotation(&mut self, name: &str) -> String {
        if KNOWN_ANNOTATIONS
            .iter()
            .any(|known| name.starts_with(known))
        {
            return name.to_owned();
        }
        if let Some((method, class)) = optimizer(name) {
            let class = if OPTIMIZERS.contains(&class) {
                class.to_owned()
            } else {
                self.replace("Optimizer", class)
            };
            return format!("Optimizer.{method}#{class}.{method}");
        }
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = &name[stem.len()..];
        let separator = if stem.ends_with('#') && !number.is_empty() {
            "#"
        } else {
            ""
        };
        format!("{}{separator}{number}", self.replace("annotation", stem))
    }

    /// Returns a Python frame, or a module: `nn.Module: Linear_0`.
    pub(super) fn frame(&mut self, name: &str) -> String {
        if let Some(module) = name.strip_prefix("nn.Module: ") {
            let (class, number) = module.rsplit_once('_').unwrap_or((module, "0"));
            return format!("nn.Module: {}_{number}", self.replace("Module", class));
        }
        if name.starts_with('<') {
            return self.replace("builtin", name);
        }
        match name.split_once('(') {
            Some((file, rest)) if rest.contains("): ") => {
                let (line, function) = rest.split_once("): ").unwrap_or((rest, ""));
                let file = self.replace("file", file);
                format!("{file}.py({line}): {}", self.replace("function", function))
            }
            _ => self.replace("function", name),
        }
    }

    /// Returns the name or the description of a process group. Numbers stay.
    pub(super) fn group(&mut self, name: &str) -> String {
        if GROUPS.contains(&name) || name.bytes().all(|byte| byte.is_ascii_digit()) {
            name.to_owned()
        } else {
            self.replace("group", name)
        }
    }

    /// Returns the value of an argument: numbers, flags, lists of them, and devices stay.
    pub(super) fn value(&mut self, text: &str) -> String {
        if is_plain(text) {
            text.to_owned()
        } else {
            self.replace("text", text)
        }
    }
}

/// Returns the method and the class of an optimizer's range: `Optimizer.step#SGD.step`.
fn optimizer(name: &str) -> Option<(&str, &str)> {
    let (method, rest) = name.strip_prefix("Optimizer.")?.split_once('#')?;
    let class = rest.strip_suffix(method)?.strip_suffix('.')?;
    matches!(method, "step" | "zero_grad").then_some((method, class))
}

/// Returns true for numbers, flags, placeholders, devices, and lists of these.
fn is_plain(text: &str) -> bool {
    let mut words = text.split(|letter: char| "[](), ".contains(letter));
    words.all(|word| {
        let device = word.split(':').next().unwrap_or_default();
        let is_device = DEVICES.contains(&device)
            && word[device.len()..]
                .trim_start_matches(':')
                .bytes()
                .all(|byte| byte.is_ascii_digit());
        let is_constant = matches!(
            word,
            "" | "True" | "False" | "None" | "inf" | "-inf" | "nan" | "<None>" | "<Object>"
        );
        is_constant || is_device || word.parse::<f64>().is_ok()
    })
}
