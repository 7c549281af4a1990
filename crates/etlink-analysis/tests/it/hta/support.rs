//! Draws and links traces.

use etlink_link::{LinkOptions, LinkedTrace};
use etlink_testing::TraceBuilder;

pub(crate) fn linked(draw: &TraceBuilder) -> LinkedTrace {
    let options = etlink_formats::kineto::KinetoReadOptions {
        threads: 1,
        shapes: true,
        keep: etlink_model::KeepEvents::Auxiliary,
    };
    let device = etlink_formats::kineto::read(&draw.kineto()[..], options).expect("reads");
    etlink_link::link(None, device, LinkOptions::default()).expect("links")
}
