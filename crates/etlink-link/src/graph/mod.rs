//! The graph: what nodes and edges are, and how they are made.

pub(crate) mod build;
pub(crate) mod draft;
pub(crate) mod edges;
pub(crate) mod kinds;
pub(crate) mod nodes;

#[cfg(test)]
mod testing;
