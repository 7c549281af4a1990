//! Tests the reader with drawn traces, handwritten events, and every kind of damage seen in the
//! field.

mod around;
mod damage;
mod graph_nodes;
mod kinds;
mod numbers;
mod random;
mod support;
mod writers;
mod written;
