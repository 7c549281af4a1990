//! Message of a build of etlink without some of its features.

use etlink_model::advice;

/// A capability that this build of etlink lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{what} needs a build of etlink with the feature `{feature}`{}",
    advice(Some(self.remedy()))
)]
pub struct MissingFeature {
    /// Subject of the message, such as `an export of Nsight Systems`.
    pub what: &'static str,
    /// Name of the cargo feature.
    pub feature: &'static str,
}

impl MissingFeature {
    /// Returns the remedy: how to build etlink with all features.
    pub fn remedy(&self) -> String {
        "build etlink with all features: \
         `cargo install --path crates/etlink --profile dist --features full`"
            .to_owned()
    }
}
