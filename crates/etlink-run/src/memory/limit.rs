//! Memory limits and oversized ranks, for messages.

use super::least;
use crate::input::display_name;
use bytesize::ByteSize;
use etlink_model::{Failure, Setting, command_only};
use std::fmt::{Display, Formatter, Result};
use std::path::PathBuf;

/// Available memory and its origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Available memory, bytes.
    pub bytes: u64,
    /// True if the figure comes from `--memory`, not from the system.
    pub is_asked: bool,
}

impl Display for MemoryLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let bytes = display_size(self.bytes);
        if self.is_asked {
            write!(f, "{} allows {bytes}", Setting::Memory)
        } else {
            write!(f, "the system has {bytes} available")
        }
    }
}

/// A rank that needs more memory than available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OversizedRank {
    /// Files of the rank.
    pub(crate) files: Vec<PathBuf>,
    /// Unpacked size of the files, bytes.
    pub(crate) unpacked: u64,
    /// True if `unpacked` only counts the bytes read until then, because the sizes of standard
    /// input and pipes are unknown.
    pub(crate) is_part: bool,
    /// Memory needed for linking, bytes.
    pub(crate) needed: u64,
    /// Number of other ranks that are also too large.
    pub(crate) others: usize,
    /// Available memory.
    pub(crate) limit: MemoryLimit,
    /// True if the rank is a recording, so that a slice of it can be read.
    pub(crate) is_recording: bool,
    /// True if the rank would fit with one thread.
    pub(crate) fits_one_thread: bool,
}

impl OversizedRank {
    /// Creates the error of the rank.
    pub(crate) fn failure(&self) -> Failure {
        let files: Vec<String> = self.files.iter().map(|file| display_name(file)).collect();
        let others = match self.others {
            0 => String::new(),
            1 => " (1 more rank is also too large)".to_owned(),
            more => format!(" ({more} more ranks are also too large)"),
        };
        let size = display_size(self.unpacked);
        let unpacked = match (self.unpacked, self.is_part) {
            // standard input, whose size is unknown
            (0, _) => "the data read so far needs".to_owned(),
            (_, true) => format!("{size} uncompressed, with more to come, need"),
            (_, false) => format!("{size} uncompressed need"),
        };
        Failure::new(format!(
            "{}: {unpacked} about {} of memory to link{others}, but {}{}",
            files.join(" and "),
            enough_size(self.needed),
            self.limit,
            self.least_text(),
        ))
        .advise(self.remedy())
    }

    /// Returns a remark if the limit is below the minimum for etlink itself.
    fn least_text(&self) -> String {
        let least = least();
        if self.limit.bytes < least.as_u64() {
            format!(", and etlink itself needs about {}", least.display().si())
        } else {
            String::new()
        }
    }

    fn remedy(&self) -> String {
        // advises fewer threads only if that helps
        let fewer_threads = if self.fits_one_thread {
            "use fewer threads (-j 1), "
        } else {
            ""
        };
        let slice = if self.is_recording {
            command_only("read only some steps with --steps or --time, ".to_owned())
        } else {
            String::new()
        };
        let to_file = if self.is_part {
            "save it to a file, so that its size is known, "
        } else {
            ""
        };
        format!(
            "{to_file}{fewer_threads}allow more with {}, {slice}or record fewer steps",
            Setting::Memory
        )
    }
}

/// Returns a size for messages, rounded up so that a limit of that size is accepted.
pub(crate) fn enough_size(bytes: u64) -> String {
    let mut unit = 1;
    while bytes / unit >= 1000 {
        unit *= 1000;
    }
    // the tenth that is shown
    let step = (unit / 10).max(1);
    display_size(bytes.div_ceil(step).saturating_mul(step))
}

pub(crate) fn display_size(bytes: u64) -> String {
    ByteSize(bytes).display().si().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_is_enough() {
        for (bytes, named) in [
            (237_149_000, "237.2 MB"),
            (237_100_000, "237.1 MB"),
            (999_950_001, "1.0 GB"),
            (39_010_000_000, "39.1 GB"),
            (999, "999 B"),
        ] {
            assert_eq!(enough_size(bytes), named);
        }
    }
}
