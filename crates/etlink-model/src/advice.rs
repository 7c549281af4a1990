//! Remedies of errors, worded for the caller: the command has options, the Python module has
//! arguments.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::sync::atomic::{AtomicBool, Ordering};

/// True if messages of this process name Python arguments.
static NAMES_ARGUMENTS: AtomicBool = AtomicBool::new(false);

/// Selects whether messages of this process name Python arguments or command options.
pub fn name_python_arguments(is_python: bool) {
    NAMES_ARGUMENTS.store(is_python, Ordering::Relaxed);
}

/// A user setting, displayed as an option or as an argument.
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

/// Returns a hint about an option without a Python counterpart; empty if messages are for Python.
pub fn command_only(text: String) -> String {
    if NAMES_ARGUMENTS.load(Ordering::Relaxed) {
        String::new()
    } else {
        text
    }
}

/// Returns the remedy as a suffix for an error message; empty if there is none.
pub fn advice(remedy: Option<String>) -> String {
    remedy.map_or(String::new(), |remedy| format!("; {remedy}"))
}

/// A problem and its remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvisedError {
    /// Problem that occurred.
    pub problem: String,
    /// Action that resolves the problem.
    pub remedy: String,
}

impl AdvisedError {
    /// Creates an error from a problem and its remedy.
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
