//! What users can do about an error, in the words of whoever they talk to: the command has options, the
//! Python module has arguments.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether messages of this process name arguments of Python.
static NAMES_ARGUMENTS: AtomicBool = AtomicBool::new(false);

/// Lets all messages of this process name arguments of the Python module, or options of the command again.
pub fn name_python_arguments(is_python: bool) {
    NAMES_ARGUMENTS.store(is_python, Ordering::Relaxed);
}

/// What a user can set, by the name that it has for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `--ranks`.
    Ranks,
    /// `--memory`.
    Memory,
    /// `--strict`.
    Strict,
    /// `--overwrite`.
    Overwrite,
    /// `--allow-mismatch`.
    AllowMismatch,
    /// `--what-if`.
    WhatIf,
    /// `--scale`.
    Scale,
    /// `--for astra-sim`.
    ForAstraSim,
    /// `--tensor-deps none`.
    NoTensorDeps,
}

impl Display for Setting {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (option, argument) = match self {
            Setting::Ranks => ("--ranks", "ranks="),
            Setting::Memory => ("--memory", "memory="),
            Setting::Strict => ("--strict", "strict=True"),
            Setting::Overwrite => ("--overwrite", "overwrite=True"),
            Setting::AllowMismatch => ("--allow-mismatch", "allow_mismatch=True"),
            Setting::WhatIf => ("--what-if", "what_if="),
            Setting::Scale => ("--scale", "scale="),
            Setting::NoTensorDeps => ("--tensor-deps none", "tensor_deps=\"none\""),
            Setting::ForAstraSim => ("--for astra-sim", "simulator=\"astra-sim\""),
        };
        f.write_str(if NAMES_ARGUMENTS.load(Ordering::Relaxed) {
            argument
        } else {
            option
        })
    }
}

/// What is said of an option that the Python module has no argument for: nothing there.
pub fn command_only(text: String) -> String {
    if NAMES_ARGUMENTS.load(Ordering::Relaxed) {
        String::new()
    } else {
        text
    }
}

/// What stands behind a problem: the remedy, if there is one.
pub fn advice(remedy: Option<String>) -> String {
    remedy.map_or(String::new(), |remedy| format!("; {remedy}"))
}

/// A problem, and what the user can do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisedError {
    /// What is wrong.
    pub problem: String,
    /// What helps.
    pub remedy: String,
}

impl AdvisedError {
    /// A problem with its remedy.
    pub fn new(problem: impl Into<String>, remedy: impl Into<String>) -> AdvisedError {
        AdvisedError {
            problem: problem.into(),
            remedy: remedy.into(),
        }
    }
}

impl Display for AdvisedError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem, self.remedy)
    }
}

impl Error for AdvisedError {}
