//! Tests the reader with drawn traces, handwritten events, and every kind of damage seen in the
//! field.

#[cfg(test)]
mod around;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod graph_nodes;
#[cfg(test)]
mod kinds;
#[cfg(test)]
mod numbers;
#[cfg(test)]
mod random;
#[cfg(test)]
mod support;
#[cfg(test)]
mod writers;
#[cfg(test)]
mod written;
