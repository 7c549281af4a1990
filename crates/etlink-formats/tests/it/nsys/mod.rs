//! Compares exports of Nsight Systems with Kineto traces of the same runs.

mod documented;
mod producers;
mod same_graph;
mod support;
