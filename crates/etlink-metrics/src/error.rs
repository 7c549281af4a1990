//! Why a file could not be read.

/// Why a file of measurements could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source failed.
    #[error("it cannot be read: {0}")]
    Source(#[from] std::io::Error),
    /// No line of column names that Nsight Compute writes.
    #[error(
        "no table of Nsight Compute in it: a line with the columns \"ID\" and \"Kernel Name\" is \
         missing; export it with `ncu --csv --page raw --import REPORT`"
    )]
    NoComputeTable,
    /// Neither vLLM's nor SGLang's result.
    #[error(
        "no latencies of requests in it: keys such as \"mean_ttft_ms\" are missing; give the result \
         of `vllm bench serve --save-result` or of SGLang's bench_serving"
    )]
    NoLatencies,
    /// The file is larger than any such file is.
    #[error("it has more than {limit} bytes, more than any {what} has")]
    TooLarge {
        /// Most bytes that are read.
        limit: u64,
        /// What it would be.
        what: &'static str,
    },
    /// Workload cards are YAML, whose reader this build lacks.
    #[error(
        "workload cards need a build of etlink with the feature `cards`; build etlink with all of \
         its features: `cargo install --path crates/etlink --profile dist --features full`"
    )]
    NoCards,
    /// No YAML that can be read.
    #[error("it is no YAML: {0}")]
    Yaml(String),
    /// YAML without the key `workload`.
    #[error("no workload card of ccl-bench: the key \"workload\" is missing")]
    NoWorkload,
}
