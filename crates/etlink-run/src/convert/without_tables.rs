//! Replacements in a build without the feature `parquet`, which has no tables.

use crate::{RunError, missing_feature};
use etlink_chakra::messages::ChakraMessages;
use std::path::Path;

pub(super) fn read(_: &Path) -> Result<ChakraMessages, RunError> {
    Err(missing_feature("Parquet", "parquet").into())
}

pub(super) fn write(_: &ChakraMessages, _: &Path, _: bool) -> Result<u64, RunError> {
    Err(missing_feature("Parquet", "parquet").into())
}
