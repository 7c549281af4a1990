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
    /// `--overhead keep`.
    KeepOverhead,
    /// `--overhead remove`.
    RemoveOverhead,
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
            Setting::KeepOverhead => ("--overhead keep", "overhead=\"keep\""),
            Setting::RemoveOverhead => ("--overhead remove", "overhead=\"remove\""),
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

/// An error in words: the problem, the file it is about, its cause, and a remedy.
#[derive(Debug)]
pub struct Failure {
    problem: String,
    file: Option<String>,
    remedy: Option<String>,
    cause: Option<Box<dyn Error + Send + Sync>>,
}

impl Failure {
    /// Creates an error from the problem alone.
    pub fn new(problem: impl Into<String>) -> Failure {
        Failure {
            problem: problem.into(),
            file: None,
            remedy: None,
            cause: None,
        }
    }

    /// Creates the error of a file or folder: the problem is its name and `what`.
    pub fn about(file: impl Display, what: impl Display) -> Failure {
        Failure::new(format!("{file}{what}")).of(file)
    }

    /// Creates the error of a file that a reader rejects for `cause`.
    pub fn unreadable(
        file: impl Display,
        cause: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> Failure {
        Failure::about(file, "").because(cause)
    }

    /// Adds the file or folder that the error is about.
    #[must_use]
    pub fn of(mut self, file: impl Display) -> Failure {
        self.file = Some(file.to_string());
        self
    }

    /// Adds the cause.
    #[must_use]
    pub fn because(mut self, cause: impl Into<Box<dyn Error + Send + Sync>>) -> Failure {
        self.cause = Some(cause.into());
        self
    }

    /// Adds the remedy, which ends the message.
    #[must_use]
    pub fn advise(mut self, remedy: impl Into<String>) -> Failure {
        self.remedy = Some(remedy.into());
        self
    }

    /// Returns the file or folder of the error, if it is about a single one.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// Returns the remedy, if there is one.
    pub fn remedy(&self) -> Option<&str> {
        self.remedy.as_deref()
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let advice = advice(self.remedy.clone());
        write!(f, "{}{advice}", self.problem)
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.cause.as_deref().map(|cause| cause as _)
    }
}
