//! Classifies planes and lines by name.
//!
//! Names: `xla/tsl/profiler/utils/xplane_schema.cc`.

/// Kind of a plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaneKind {
    /// Threads of the host.
    Host,
    /// A device, or a part of one that has its own plane.
    Device {
        /// Device number.
        number: i64,
        /// 0 for the device itself; for a sparse core its number plus 1.
        part: i64,
    },
    /// Metadata, system counters and others.
    Other,
}

impl PlaneKind {
    /// Classifies a plane, or a process in JSON, whose name may begin with a host's.
    pub(crate) fn of(name: &str) -> PlaneKind {
        if let Some((_, device)) = name.split_once("/device:") {
            // `GPU:0`, `TPU:3`, `TPU:3 SparseCore 1`, `CUSTOM:MOSAIC:0`
            let mut words = device.split(' ');
            let number = words.next().and_then(|word| word.rsplit(':').next());
            let number = number.and_then(|digits| digits.parse().ok()).unwrap_or(0);
            let part = words
                .next_back()
                .and_then(|digits| digits.parse::<i64>().ok());
            return PlaneKind::Device {
                number,
                part: part.map_or(0, |part| part.saturating_add(1)),
            };
        }
        // Calls of CUPTI and Roctracer have separate planes until they are merged into the threads
        // (`PostProcessSingleHostXSpace`).
        let is_host = [
            "/host:CPU",
            "/host:CUPTI",
            "/host:ROCTRACER",
            "/host:python-tracer",
        ]
        .iter()
        .any(|known| name.ends_with(known));
        if is_host {
            PlaneKind::Host
        } else {
            PlaneKind::Other
        }
    }
}

/// Kind of a line of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A stream with its number, as recorded by CUPTI or Roctracer.
    Stream(i64),
    /// HLO ops, sequential and nested. Derived if there are streams.
    Ops,
    /// Asynchronous HLO ops from start to end, next to [`LineKind::Ops`].
    AsyncOps,
    /// Executions of programs.
    Modules,
    /// Steps of the program.
    Steps,
    /// Another view of the same work.
    Derived,
}

impl LineKind {
    /// Classifies a line of a device by name.
    pub(crate) fn of(name: &str) -> LineKind {
        if let Some(rest) = name.strip_prefix("Stream #") {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            return LineKind::Stream(rest[..digits].parse().unwrap_or(-1));
        }
        match name {
            "XLA Ops" | "Sparse Core Ops" => LineKind::Ops,
            "Async XLA Ops" => LineKind::AsyncOps,
            "XLA Modules" | "Sparse Core Modules" => LineKind::Modules,
            "Steps" | "Sparse Core Steps" => LineKind::Steps,
            _ => LineKind::Derived,
        }
    }
}

/// A line of a plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct XlaTrack {
    /// Index of the plane in the file, or its number in JSON.
    pub(crate) plane: i64,
    /// Name of the plane.
    pub(crate) plane_name: String,
    /// Number of the line; for a thread its id, if the profiler knew it.
    pub(crate) line: i64,
    /// Name of the line.
    pub(crate) line_name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_by_name() {
        let device = |number, part| PlaneKind::Device { number, part };
        for (name, kind) in [
            ("/device:GPU:0", device(0, 0)),
            ("/device:TPU:13", device(13, 0)),
            ("worker-3 /device:TPU:2", device(2, 0)),
            ("/device:TPU:2 SparseCore 1", device(2, 2)),
            ("/device:CUSTOM:MOSAIC:4", device(4, 0)),
            ("/device:", device(0, 0)),
            ("/host:CPU", PlaneKind::Host),
            ("worker-3 /host:CPU", PlaneKind::Host),
            ("/host:CUPTI", PlaneKind::Host),
            ("/host:metadata", PlaneKind::Other),
            ("Task Environment", PlaneKind::Other),
            ("", PlaneKind::Other),
        ] {
            assert_eq!(PlaneKind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn lines_by_name() {
        for (name, kind) in [
            ("Stream #17(Kernel)", LineKind::Stream(17)),
            ("Stream #20(MemcpyH2D,Kernel)", LineKind::Stream(20)),
            ("Stream #", LineKind::Stream(-1)),
            ("XLA Ops", LineKind::Ops),
            ("Async XLA Ops", LineKind::AsyncOps),
            ("XLA Modules", LineKind::Modules),
            ("Steps", LineKind::Steps),
            ("Framework Ops", LineKind::Derived),
        ] {
            assert_eq!(LineKind::of(name), kind, "{name}");
        }
    }
}
