//! Limits on graphs that follow from ASTRA-sim's configurations.

/// Number of pieces that collectives are split into (`preferred-dataset-splits`), as in ASTRA-sim's
/// example. An all-gather of fewer bytes never ends.
pub(crate) const DATASET_SPLITS: i64 = 4;
