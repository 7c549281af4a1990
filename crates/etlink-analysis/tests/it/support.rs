//! Links and analyzes drawn traces.

use etlink_analysis::{KernelRules, Options, RankAnalysis, analyze};
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

pub(crate) fn analyzed(draw: &TraceBuilder) -> RankAnalysis {
    analyzed_with(draw, &Options::default())
}

pub(crate) fn analyzed_with(draw: &TraceBuilder, options: &Options) -> RankAnalysis {
    analyze(
        &linked(draw),
        &KernelRules::built_in().expect("rules"),
        options,
    )
}
