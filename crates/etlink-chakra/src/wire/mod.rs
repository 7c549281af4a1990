//! Chakra's messages as bytes: field numbers, and a reader and a writer of single fields.
//!
//! The generated messages (`proto`) allocate per string and per attribute. Readers and writers of
//! whole files process single fields instead, by the numbers in [`schema`].

pub(crate) mod json;
pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod write;
