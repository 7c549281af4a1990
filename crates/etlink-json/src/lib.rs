//! Reads JSON documents that are one huge array with a few fields around it, such as Kineto traces
//! (`traceEvents`) and execution traces (`nodes`).
//!
//! ```text
//! bytes -> ChunkReader (chunks of whole elements, found by an anchor, not by parsing)
//!       -> parse   (JsonScanner: one pass, no tree, several threads)
//!       -> merge   (in file order)
//! ```
//! Only what the caller keeps is built. Real traces are not always JSON: names contain raw quotes,
//! numbers are `nan` or `-1.-500`, the end is missing. [`JsonScanner`] repairs text if its meaning
//! is certain, and [`ReadDamage`] counts repairs and losses. Every step is linear in the input, and
//! no function recurses. [`mod@write`] holds what writers of JSON share.

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

/// Maximum size of a single array element, and of the text around the array, in bytes.
pub const MAX_ELEMENT_BYTES: usize = 64 << 20;

/// Reasons for which a document cannot be read at all. Offsets are bytes of the decompressed text.
#[derive(Debug, thiserror::Error)]
pub enum JsonReadError {
    /// Reading the source failed.
    #[error("reading stopped at byte {offset}: {source}")]
    Io {
        /// Bytes read before the failure.
        offset: u64,
        /// Error of the source.
        source: std::io::Error,
    },
    /// No thread could be started.
    #[error(
        "cannot start a thread ({source}); use fewer threads (-j 1), or raise the limits of memory \
         and processes (ulimit -v, ulimit -u)"
    )]
    NoThread {
        /// Error of the operating system.
        source: std::io::Error,
    },
    /// The document has no array under the requested key.
    #[error("no \"{key}\" list found ({bytes} bytes read)")]
    NoArray {
        /// Requested key.
        key: &'static str,
        /// Length of the searched text, in bytes.
        bytes: u64,
    },
    /// An element, or the text around the array, exceeds [`MAX_ELEMENT_BYTES`].
    #[error(
        "the entry at byte {offset} is larger than 64 MiB, the limit for a trace entry; \
         remove it from the file"
    )]
    TooLarge {
        /// Byte at which the oversized text begins.
        offset: u64,
    },
}
