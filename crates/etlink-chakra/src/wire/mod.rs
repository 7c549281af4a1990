//! Chakra's messages as bytes: field numbers, a reader and a writer of single fields.
//!
//! The generated messages (`proto`) allocate per string and per attribute. Readers and writers of
//! whole files go field by field instead, by the numbers of [`schema`].

pub(crate) mod read;
pub(crate) mod schema;
pub(crate) mod write;
