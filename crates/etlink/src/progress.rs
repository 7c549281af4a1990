//! A progress bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{IsTerminal, Read};

/// Progress over the bytes of the input files as they are stored.
#[derive(Clone)]
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar if standard error is a terminal.
    pub fn new() -> Progress {
        if !std::io::stderr().is_terminal() {
            return Progress::hidden();
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{msg:8} [{wide_bar}] {bytes}/{total_bytes}");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("=> "),
        );
        Progress { bar }
    }

    /// No bar.
    pub fn hidden() -> Progress {
        Progress {
            bar: ProgressBar::hidden(),
        }
    }

    /// Counts what is read from `source`, which has `bytes` in all.
    pub fn watch<R: Read>(&self, source: R, bytes: u64) -> impl Read + use<R> {
        self.bar.inc_length(bytes);
        self.bar.wrap_read(source)
    }

    /// Says what is being done.
    pub fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }

    /// Takes the bar away.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
