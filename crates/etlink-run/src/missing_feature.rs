//! Error of a build of etlink without some of its features.

use etlink_model::Failure;
use std::fmt::Display;

/// Creates the error of a capability that this build lacks. `what` begins the message, such as
/// `an export of Nsight Systems`; `feature` is the name of the cargo feature.
pub fn missing_feature(what: impl Display, feature: &str) -> Failure {
    Failure::new(format!(
        "{what} needs a build of etlink with the feature `{feature}`"
    ))
    .advise(
        "build etlink with all features: \
         `cargo install --path crates/etlink --profile dist --features full`",
    )
}
