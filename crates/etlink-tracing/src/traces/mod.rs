//! Turns the spans of a window into its two traces.

mod details;
mod et;
mod facts;
mod kineto;
mod tensors;
mod window;

pub(crate) use et::write as write_host;
pub(crate) use kineto::write as write_device;
pub(crate) use window::SpanWindow;
