//! The graph: its nodes and edges, and their construction.

pub(crate) mod build;
pub(crate) mod draft;
pub(crate) mod edges;
pub(crate) mod kinds;
pub(crate) mod nodes;

#[cfg(test)]
mod testing;
