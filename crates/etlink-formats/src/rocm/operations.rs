//! Names of copies, and conversion of grids.

/// Translates the name of a copy operation (`rocprofiler_memory_copy_operation_t`) into CUPTI's,
/// from which figures infer the direction.
pub(crate) fn copy_name(operation: &str) -> &str {
    match operation.trim_start_matches("MEMORY_COPY_") {
        "HOST_TO_HOST" => "Memcpy HtoH (Host -> Host)",
        "HOST_TO_DEVICE" => "Memcpy HtoD (Host -> Device)",
        "DEVICE_TO_HOST" => "Memcpy DtoH (Device -> Host)",
        "DEVICE_TO_DEVICE" => "Memcpy DtoD (Device -> Device)",
        _ => operation,
    }
}

/// Returns the number of blocks in a grid of work items, rounded up; 0 stays 0.
pub(crate) fn blocks(grid: [u32; 3], workgroup: [u32; 3]) -> [u32; 3] {
    let mut blocks = grid;
    for (blocks, threads) in blocks.iter_mut().zip(workgroup) {
        *blocks = blocks.div_ceil(threads.max(1));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_count_blocks() {
        assert_eq!(blocks([512, 6, 1], [256, 4, 1]), [2, 2, 1]);
        assert_eq!(blocks([7, 0, 1], [0, 0, 0]), [7, 0, 1]);
    }

    #[test]
    fn copies_say_their_direction() {
        for (operation, name) in [
            ("MEMORY_COPY_HOST_TO_DEVICE", "Memcpy HtoD (Host -> Device)"),
            ("DEVICE_TO_HOST", "Memcpy DtoH (Device -> Host)"),
            ("MEMORY_COPY_NONE", "MEMORY_COPY_NONE"),
        ] {
            assert_eq!(copy_name(operation), name);
        }
    }
}
