//! Reads JSON documents that are one huge array with a little around it, as
//! Kineto traces (`traceEvents`) and execution traces (`nodes`) are.
//!
//! ```text
//! bytes -> ChunkReader (chunks of whole elements, found by an anchor, not by parsing)
//!       -> parse   (JsonScanner: one pass, no tree, several threads)
//!       -> merge   (in file order)
//! ```
//! Nothing is built but what the caller keeps. Real traces are not always JSON:
//! names hold raw quotes, numbers are `nan` or `-1.-500`, the end is missing. The
//! [`JsonScanner`] repairs what it can tell, and [`ReadDamage`] counts repairs and losses.
//! All of it is linear in the input; no function recurses. [`mod@write`] has what writers of JSON
//! share.

mod chunk;
mod document;
mod fields;
mod number;
mod pipeline;
mod recovery;
mod scanner;
mod text;
pub mod write;

pub use chunk::{ArrayLayout, ChunkReader, TextChunk};
pub use document::from_slice;
pub use fields::{FieldScan, object_fields, scan_fields};
pub use number::{micros_to_ns, micros_to_ps, parse_int};
pub use pipeline::{ArrayEnvelope, read_elements};
pub use scanner::{BrokenJson, JsonScanner, JsonValue, ReadDamage};
pub use text::unescape;

/// The largest single array element, and the largest text around the array, that is read.
pub const MAX_ELEMENT_BYTES: usize = 64 << 20;

/// Why a document could not be read at all. Offsets are bytes of the inflated text.
#[derive(Debug, thiserror::Error)]
pub enum JsonReadError {
    /// The source failed.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// How many bytes had been read.
        offset: u64,
        /// What the source said.
        source: std::io::Error,
    },
    /// No thread can be started.
    #[error(
        "no thread can be started ({source}): use fewer (-j 1), or raise the limits of memory and \
         processes (ulimit -v, ulimit -u)"
    )]
    NoThread {
        /// What the system said.
        source: std::io::Error,
    },
    /// No array under the wanted key.
    #[error("no \"{key}\" list in it ({bytes} bytes read)")]
    NoArray {
        /// The key that was looked for.
        key: &'static str,
        /// Length of the text that was searched.
        bytes: u64,
    },
    /// One element, or the text around the array, exceeds [`MAX_ELEMENT_BYTES`].
    #[error(
        "the entry that begins at byte {offset} is larger than 64 MiB, \
         which no trace entry is: cut it out of the file"
    )]
    TooLarge {
        /// Where it begins.
        offset: u64,
    },
}
