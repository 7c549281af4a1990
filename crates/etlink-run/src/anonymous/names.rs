//! Replacements of names, the same in all files of a run.

use indexmap::IndexSet;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

/// Whole names of ranges by PyTorch and serving engines that say nothing of the program.
static KNOWN_RANGES: LazyLock<Regex> = LazyLock::new(|| {
    let names = [
        r"ProfilerStep#\d+",
        r"enumerate\(DataLoader\)#_(Single|Multi)Process(ing)?DataLoaderIter\.__next__",
        r"(DistributedDataParallel|FullyShardedDataParallel)\.(forward|_\w+)",
        r"FSDP::(all_gather|reduce_scatter|(pre|post)_(forward|backward)|root_pre_forward)\w{0,24}",
        r"## process_group:init ##",
        r"## Call CompiledFxGraph [a-z0-9]+ ##",
        r"Torch-Compiled Region: \d+/\d+",
        r"PyTorch Profiler( \(\d+\))?|Iteration Start: PyTorch Profiler|Record Window End",
        r"\[pytorch\|profiler\|execution_trace\|(process|thread)\]|\[memory\]",
        r"execute_((context|generation|new|prefill|decode|\d+)[_()\dsqk]*)+",
        r"step\[(DECODE|EXTEND|PREFILL|MIXED|IDLE)( (bs|toks|tokens|reqs)=\d+)*\]",
        r"run_batch|forward|backward",
    ];
    whole(&names.join("|"))
});

/// Names of ops: with a namespace, or of autograd.
static OPS: LazyLock<Regex> = LazyLock::new(|| {
    let names = [
        r"[\w.]+(::\w+)+(\.\w+)?",
        r"autograd::engine::evaluate_function: [\w:]+",
        r"(\w+::)*\w+Backward\d*",
        r"detach|detach_|AccumulateGrad|record_param_comms|CompiledFunction|triton_\w+",
        r"DataLoader\.(idle|worker)",
    ];
    whole(&names.join("|"))
});

/// Kinds of communication, as PyTorch names them.
static COLLECTIVES: LazyLock<Regex> = LazyLock::new(|| {
    whole(
        r"((nccl|gloo|mpi|ucc|xccl|hccl|commgloo):)?_?(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|broadcast|barrier|gather|scatter|reduce|send|recv|coalesced|wait|init|batch)(_?(base|into_tensor|coalesced|single|tensor|any_source|oop|v|start|end|end_coalesced))*( \d+(->|<-)\d+)?",
    )
});

static FRAME: LazyLock<Regex> = LazyLock::new(|| whole(r"(?s)(.*)\((\d+)\): (.*)"));
static MODULE: LazyLock<Regex> = LazyLock::new(|| whole(r"(?s)nn\.Module: (.*)_(\d+)"));
static OPTIMIZER: LazyLock<Regex> =
    LazyLock::new(|| whole(r"(?s)Optimizer\.(step|zero_grad)#(.*)\.(step|zero_grad)"));

/// Threads and processes that PyTorch and Kineto name themselves.
static PLACES: LazyLock<Regex> = LazyLock::new(|| {
    whole(
        r"|\d+|stream \d+ ?|Device \d+|GPU \d+|CPU|python(3(\.\d+)?)?|pt_(autograd|main_thread|gloo_runloop|nccl_\w{1,12})(_\d+)?|Spans|Traces|(Trace )?PyTorch Profiler",
    )
});

/// Types and other words that PyTorch and the profiler write, in fields where programs write none.
static TYPES: LazyLock<Regex> = LazyLock::new(|| whole(r"[\w:<>*&\[\](), ]{0,200}"));

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

/// Makes a pattern of whole texts.
#[expect(clippy::expect_used, reason = "the patterns are constants")]
fn whole(pattern: &str) -> Regex {
    Regex::new(&format!("^(?:{pattern})$")).expect("a pattern")
}

/// Texts that were replaced, by kind, in the order in which they were first seen.
#[derive(Default)]
pub(super) struct Names {
    texts: BTreeMap<&'static str, IndexSet<String>>,
    left_out: BTreeSet<String>,
}

impl Names {
    /// Returns the replacement of a text: its kind and its number among those of the kind.
    pub(super) fn replace(&mut self, kind: &'static str, text: &str) -> String {
        let texts = self.texts.entry(kind).or_default();
        let (number, _) = texts.insert_full(text.to_owned());
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

    /// Returns the name of an op; of a range of the program among ops, its replacement.
    pub(super) fn op(&mut self, name: &str) -> String {
        if OPS.is_match(name) {
            return name.to_owned();
        }
        self.annotation(name)
    }

    /// Returns an annotation of the program. The number at its end stays: it may count steps.
    pub(super) fn annotation(&mut self, name: &str) -> String {
        if KNOWN_RANGES.is_match(name) || COLLECTIVES.is_match(name) || name == "record_param_comms"
        {
            return name.to_owned();
        }
        if let Some(parts) = OPTIMIZER.captures(name) {
            let class = if OPTIMIZERS.contains(&&parts[2]) {
                parts[2].to_owned()
            } else {
                self.replace("Optimizer", &parts[2])
            };
            return format!("Optimizer.{}#{class}.{}", &parts[1], &parts[3]);
        }
        let stem = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let number = &name[stem.len()..];
        let replaced = self.replace("annotation", stem);
        if number.is_empty() {
            replaced
        } else {
            format!("{replaced}#{number}")
        }
    }

    /// Returns a Python frame, or a module: `nn.Module: Linear_0`. Files of PyTorch stay.
    pub(super) fn frame(&mut self, name: &str) -> String {
        if let Some(parts) = MODULE.captures(name) {
            return format!(
                "nn.Module: {}_{}",
                self.replace("Module", &parts[1]),
                &parts[2]
            );
        }
        let Some(parts) = FRAME.captures(name) else {
            return self.replace("function", name);
        };
        let (file, line, function) = (&parts[1], &parts[2], &parts[3]);
        if file.starts_with("torch/") && TYPES.is_match(function) {
            return name.to_owned();
        }
        let file = self.replace("file", file);
        format!("{file}.py({line}): {}", self.replace("function", function))
    }

    /// Returns the name or the description of a process group. Numbers stay.
    pub(super) fn group(&mut self, name: &str) -> String {
        if GROUPS.contains(&name) || name.bytes().all(|byte| byte.is_ascii_digit()) {
            name.to_owned()
        } else {
            self.replace("group", name)
        }
    }

    /// Returns the name of a process or a thread.
    pub(super) fn place(&mut self, name: &str) -> String {
        let thread = name.strip_prefix("thread ").and_then(|rest| {
            let (number, own) = rest.split_once(" (")?;
            let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then_some((number, own.strip_suffix(')')?))
        });
        match thread {
            Some((number, own)) => format!("thread {number} ({})", self.place(own)),
            None if PLACES.is_match(name) => name.to_owned(),
            None => self.replace("thread", name),
        }
    }

    /// Returns a kind of communication.
    pub(super) fn collective(&mut self, text: &str) -> String {
        if COLLECTIVES.is_match(text) {
            text.to_owned()
        } else {
            self.value(text)
        }
    }

    /// Returns a type, or another word in a field that only PyTorch writes.
    pub(super) fn type_text(&mut self, text: &str) -> String {
        if TYPES.is_match(text) {
            text.to_owned()
        } else {
            self.replace("text", text)
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

/// Returns true for numbers, flags, placeholders, devices, and lists of these.
fn is_plain(text: &str) -> bool {
    let mut words = text.split(|letter: char| "[](), ".contains(letter));
    words.all(|word| {
        let device = word.split(':').next().unwrap_or_default();
        let index = word[device.len()..].trim_start_matches(':');
        let is_device =
            DEVICES.contains(&device) && index.bytes().all(|byte| byte.is_ascii_digit());
        let is_constant = matches!(
            word,
            "" | "True" | "False" | "None" | "inf" | "-inf" | "nan" | "<None>" | "<Object>"
        );
        let is_address = word.strip_prefix("0x").is_some_and(|digits| {
            digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        is_constant || is_device || is_address || word.parse::<f64>().is_ok()
    })
}
