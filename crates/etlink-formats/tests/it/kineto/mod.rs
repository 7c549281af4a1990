//! Tests the reader with drawn traces, handwritten events, and every kind of damage seen in the
//! field.

mod around;
mod damage;
mod graph_nodes;
mod kinds;
mod numbers;
mod random;
mod support;
pub(crate) mod whole_trace;
mod writers;
mod written;
