//! Errors of reading measurements.

/// Reason why a file of measurements could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source failed.
    #[error("cannot read the file: {0}")]
    Source(#[from] std::io::Error),
    /// The file has no line with Nsight Compute's column names.
    #[error(
        "no Nsight Compute table found: a line with the columns \"ID\" and \"Kernel Name\" is \
         missing; export the report with `ncu --csv --page raw --import REPORT`"
    )]
    NoComputeTable,
    /// The file is neither a result of vLLM nor of SGLang.
    #[error(
        "no request latencies found: keys such as \"mean_ttft_ms\" are missing; give the result \
         of `vllm bench serve --save-result` or of SGLang's bench_serving"
    )]
    NoLatencies,
    /// The file is larger than any of its kind.
    #[error("the file is larger than {limit} bytes, the limit for a {what}")]
    TooLarge {
        /// Maximum size, bytes.
        limit: u64,
        /// Kind of file.
        what: &'static str,
    },
    /// Reading workload cards requires YAML support, which this build lacks.
    #[error(
        "workload cards need a build of etlink with the feature `cards`; build etlink with all \
         features: `cargo install --path crates/etlink --profile dist --features full`"
    )]
    NoCards,
    /// The file is not valid YAML.
    #[error("the file is not valid YAML: {0}")]
    Yaml(String),
    /// The YAML has no key `workload`.
    #[error("not a ccl-bench workload card: the key \"workload\" is missing")]
    NoWorkload,
}
