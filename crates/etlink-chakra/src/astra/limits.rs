//! What graphs have to keep to, as ASTRA-sim's configurations say it.

/// Into how many pieces collectives are cut (`preferred-dataset-splits`), as in ASTRA-sim's example.
/// An all-gather of fewer bytes never ends.
pub(crate) const DATASET_SPLITS: i64 = 4;
