//! Replacements in a build without the feature `parquet`, which has no tables.

use super::error::ConversionError;
use crate::MissingFeature;
use etlink_chakra::messages::ChakraMessages;
use std::path::Path;

const MISSING: MissingFeature = MissingFeature {
    what: "Parquet",
    feature: "parquet",
};

pub(super) fn read(_: &Path) -> Result<ChakraMessages, ConversionError> {
    Err(MISSING.into())
}

pub(super) fn write(_: &ChakraMessages, _: &Path, _: bool) -> Result<u64, ConversionError> {
    Err(MISSING.into())
}
