//! Figures about one recorded run, from its device trace.
//!
//! ```text
//! DeviceTrace (read with its asides) ── top() ──> Top: what `key_averages()` of PyTorch's profiler says
//! ```

pub mod top;
