//! Converts names to Kineto's spelling.

/// Strips the suffixes that CUPTI adds to a call: `cudaLaunchKernel_v7000` (the CUDA version that
/// introduced it), `_ptsz` and `_ptds` (the thread's default stream).
pub(crate) fn call_name(name: &str) -> &str {
    let name = ["_ptsz", "_ptds"]
        .iter()
        .find_map(|suffix| name.strip_suffix(suffix))
        .unwrap_or(name);
    let Some((stem, version)) = name.rsplit_once("_v") else {
        return name;
    };
    // `cuMemFree_v2` is a driver name; CUDA versions have four or five digits.
    let is_version = version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit());
    if is_version { stem } else { name }
}

/// Returns the rank in the thread name `MPI Rank 3`, as written by Nsight Systems.
pub(crate) fn mpi_rank_name(name: &str) -> Option<i64> {
    let rank = name.trim().strip_prefix("MPI Rank ")?;
    rank.trim().parse().ok().filter(|rank| *rank >= 0)
}

/// Returns Kineto's name for the direction of a copy (`memcpyKindString` in `CuptiActivity.h`), by
/// the numbers of `ENUM_CUDA_MEMCPY_OPER`, which match CUPTI's up to 10.
pub(crate) fn copy_direction(kind: i64) -> &'static str {
    match kind {
        1 | 11 => "HtoD",
        2 | 12 => "DtoH",
        3 => "HtoA",
        4 => "AtoH",
        5 => "AtoA",
        6 => "AtoD",
        7 => "DtoA",
        8 | 13 => "DtoD",
        9 => "HtoH",
        10 => "PtoP",
        _ => "Unknown",
    }
}

/// Returns true for copies caused by pages of unified memory, which no stream runs.
pub(crate) fn is_unified(kind: i64) -> bool {
    matches!(kind, 11..=13)
}

/// Returns Kineto's name for a kind of memory (`memoryKindString`), by the numbers of
/// `ENUM_CUDA_MEM_KIND`. CUPTI counts them from 1.
pub(crate) fn memory_kind(kind: Option<i64>) -> &'static str {
    match kind {
        Some(0) => "Pageable",
        Some(1) => "Pinned",
        Some(2) => "Device",
        Some(3) => "Array",
        Some(4) => "Managed",
        Some(5) => "Device Static",
        Some(6) => "Managed Static",
        _ => "Unknown",
    }
}

/// Returns Kineto's name for a synchronisation (`syncTypeString`), by the numbers of
/// `ENUM_CUPTI_SYNC_TYPE`.
pub(crate) fn sync_name(kind: Option<i64>) -> &'static str {
    match kind {
        Some(1) => "Event Sync",
        Some(2) => "Stream Wait Event",
        Some(3) => "Stream Sync",
        Some(4) => "Context Sync",
        _ => "Unknown Sync",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_lose_what_cupti_adds() {
        for (written, name) in [
            ("cudaLaunchKernel_v7000", "cudaLaunchKernel"),
            ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel_ptsz"),
            ("cudaMemcpyAsync_v3020_ptsz", "cudaMemcpyAsync"),
            ("cudaGraphLaunch_v10000", "cudaGraphLaunch"),
            ("cuMemFree_v2", "cuMemFree_v2"),
            ("cuLaunchKernelEx", "cuLaunchKernelEx"),
            ("_v7000", ""),
        ] {
            assert_eq!(call_name(written), name, "{written}");
        }
    }

    #[test]
    fn ranks_of_threads() {
        assert_eq!(mpi_rank_name("MPI Rank 12"), Some(12));
        assert_eq!(mpi_rank_name("MPI Rank x"), None);
        assert_eq!(mpi_rank_name("python"), None);
    }
}
