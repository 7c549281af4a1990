//! A progress bar on a terminal, nothing elsewhere.

use etlink_run::{Progress, ProgressListener};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;

/// Returns a progress bar over the bytes of the input files, if standard error is a terminal.
pub fn progress_bar() -> Progress {
    if !std::io::stderr().is_terminal() {
        return Progress::hidden();
    }
    // ten times per second: each redraw takes a lock that all reading threads need
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(10));
    let style = ProgressStyle::with_template("{msg:8} [{wide_bar}] {bytes}/{total_bytes}")
        // a bar that looks different is no reason to fail
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.set_style(style.progress_chars("=> "));
    Progress::to(Arc::new(Bar(bar)))
}

struct Bar(ProgressBar);

impl ProgressListener for Bar {
    fn phase(&self, name: &str) {
        self.0.set_message(name.to_owned());
    }

    fn expect_bytes(&self, bytes: u64) {
        // files are opened one after the other, so the total grows
        self.0.inc_length(bytes);
    }

    fn advance(&self, bytes: u64) {
        self.0.inc(bytes);
    }

    fn finish(&self) {
        self.0.finish_and_clear();
    }
}
