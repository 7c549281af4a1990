//! Reads pickles that PyTorch writes for other programs, without running them.
//!
//! ```
//! use etlink_formats::pickle::{PickleLimits, read_pickle};
//! let limits = PickleLimits {
//!     wanted: "a list",
//!     max_bytes: 100,
//!     max_values: 100,
//!     smaller: "make it shorter",
//! };
//! let tree = read_pickle(b"\x80\x02]K\x07a.", &limits)?;
//! let list = tree.root.expect("a value");
//! assert_eq!(tree.int(tree.items(list)[0]), Some(7));
//! let error = read_pickle(b"\x80\x02cos\nsystem\n.", &limits).expect_err("a call");
//! assert!(error.to_string().contains("os.system"));
//! # Ok::<(), etlink_model::Failure>(())
//! ```

mod read;
mod tree;

pub use read::{first_key, is_pickle, read_pickle};
pub use tree::{PickleValue, ValueIdx, ValueTree};

use etlink_model::Failure;
use std::io::{ErrorKind, Read};

/// Largest accepted files of a kind, and the texts of its errors.
#[derive(Clone, Copy, Debug)]
pub struct PickleLimits {
    /// Kind of file that the caller wants, with an article.
    pub wanted: &'static str,
    /// Maximum file size.
    pub max_bytes: u64,
    /// Maximum number of values, and of names of values; each takes up to 54 bytes.
    pub max_values: u64,
    /// Advice for a file that is too large.
    pub smaller: &'static str,
}

impl PickleLimits {
    /// Creates the error of a file of another kind.
    pub fn wrong_file(&self, problem: String) -> Failure {
        Failure::new(problem).advise(format!("give {}", self.wanted))
    }

    fn too_large(&self, what: &str) -> Failure {
        Failure::new(format!("the file {what}, which is the limit")).advise(self.smaller)
    }

    /// Rejects a document with too many values, counting `more` further references to values.
    ///
    /// # Errors
    /// There are too many.
    pub fn check_values(&self, tree: &ValueTree<'_>, more: usize) -> Result<(), Failure> {
        let count = (tree.len() as u64).saturating_add(more as u64);
        if count > self.max_values {
            return Err(self.too_large(&format!("has more than {} values", self.max_values)));
        }
        Ok(())
    }

    /// Reads a whole file. Data that a damaged archive yields before its end is valid; it is
    /// returned with the archive's error.
    ///
    /// # Errors
    /// The source fails, or has more than `max_bytes`.
    pub fn read_bytes(&self, source: impl Read) -> Result<(Vec<u8>, Option<String>), Failure> {
        let mut bytes = vec![];
        let result = source.take(self.max_bytes + 1).read_to_end(&mut bytes);
        let offset = bytes.len() as u64;
        if offset > self.max_bytes {
            let limit = self.max_bytes >> 20;
            return Err(self.too_large(&format!("is larger than {limit} MiB")));
        }
        let Err(error) = result else {
            return Ok((bytes, None));
        };
        match error.kind() {
            ErrorKind::InvalidData | ErrorKind::UnexpectedEof if offset > 0 => {
                Ok((bytes, Some(error.to_string())))
            }
            _ => {
                let problem = format!("reading stopped at byte {offset}: {error}");
                Err(Failure::new(problem).because(error))
            }
        }
    }
}
