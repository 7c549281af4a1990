//! Tests the linker through the real readers: drawn programs, recorded pairs, random programs.

#[cfg(test)]
mod capture;
#[cfg(test)]
mod graph_nodes;
#[cfg(test)]
mod handoffs;
mod kernel_metrics;
#[cfg(test)]
mod late_ranks;
mod launches;
#[cfg(test)]
mod lost_collectives;
#[cfg(test)]
mod matching;
#[cfg(test)]
mod order;
#[cfg(test)]
mod owners;
#[cfg(test)]
mod pairs;
#[cfg(test)]
mod random;
mod recorded_waits;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod sanity;
#[cfg(test)]
mod state;
mod steps;
#[cfg(test)]
mod support;
mod truth;
mod waits;
