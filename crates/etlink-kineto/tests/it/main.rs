//! The reader against drawn traces, written-out events, and damage of every kind met in the field.

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
