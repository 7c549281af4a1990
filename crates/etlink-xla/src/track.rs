//! What planes and lines are, by their names.
//!
//! Names: `xla/tsl/profiler/utils/xplane_schema.cc`.

/// What a plane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlaneKind {
    /// Threads of the host.
    Host,
    /// A device, or a part of one that has its own plane.
    Device {
        /// Its number.
        number: i64,
        /// 0 of the device itself; of its sparse cores their number and 1.
        part: i64,
    },
    /// Metadata, counters of the system and the like.
    Other,
}

impl PlaneKind {
    /// By the name of a plane, or of a process in JSON, which may begin with the name of a host.
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
        // Calls of CUPTI and Roctracer have planes of their own until they are merged with the
        // threads (`PostProcessSingleHostXSpace`).
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

/// What a line of a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// A stream, with its number: what CUPTI or Roctracer recorded.
    Stream(i64),
    /// HLO ops, nested, one after the other. Derived where there are streams.
    Ops,
    /// HLO ops between their start and their end, beside those.
    AsyncOps,
    /// Executions of programs.
    Modules,
    /// Steps.
    Steps,
    /// Another view of the same work.
    Derived,
}

impl LineKind {
    /// By the name of a line of a device.
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
    /// The plane, by its place in the file or its number in JSON.
    pub(crate) plane: i64,
    /// Name of the plane.
    pub(crate) plane_name: String,
    /// Number of the line: of a thread its id, if the profiler knew it.
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
