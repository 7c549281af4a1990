//! Versions of PyTorch's execution trace, shared by readers and writers.

/// A version of PyTorch's execution trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostVersion {
    /// Text of `schema` in the file.
    pub schema: &'static str,
    /// PyTorch releases that write this version.
    pub pytorch: &'static str,
    /// Layout of a node.
    pub shape: &'static str,
    /// True if arguments of a node have `strides`.
    pub has_strides: bool,
    /// True if `chakra_converter` reads this version.
    pub is_converted: bool,
}

impl HostVersion {
    /// First version.
    pub const V1_0_1: HostVersion = HostVersion {
        schema: "1.0.1",
        pytorch: "2.1",
        shape: "all values are keys of the node",
        has_strides: false,
        is_converted: false,
    };
    /// Version that introduced a list of attributes per node.
    pub const V1_0_2: HostVersion = HostVersion {
        schema: "1.0.2-chakra.0.0.4",
        pytorch: "2.2 and 2.3",
        shape: "arguments are objects, other values are in a list of attributes",
        has_strides: false,
        is_converted: true,
    };
    /// Version that introduced descriptions of process groups.
    pub const V1_0_3: HostVersion = HostVersion {
        schema: "1.0.3-chakra.0.0.4",
        pytorch: "2.4 before its release",
        shape: "a process group is a pair of name and description",
        has_strides: false,
        is_converted: true,
    };
    /// Version that introduced kernel attributes of compiled programs.
    pub const V1_0_4: HostVersion = HostVersion {
        schema: "1.0.4-chakra.0.0.4",
        pytorch: "2.4 before its release",
        shape: "attributes for the backend and the file of a kernel",
        has_strides: false,
        is_converted: false,
    };
    /// Version that introduced attributes of collectives.
    pub const V1_1_0: HostVersion = HostVersion {
        schema: "1.1.0-chakra.0.0.4",
        pytorch: "2.4",
        shape: "attributes for collectives",
        has_strides: false,
        is_converted: true,
    };
    /// Version that introduced strides.
    pub const V1_1_1: HostVersion = HostVersion {
        schema: "1.1.1-chakra.0.0.4",
        pytorch: "2.5 and later",
        shape: "arguments have strides; from 2.7 on also ranges of tensors",
        has_strides: true,
        is_converted: true,
    };
    /// Version named only in the source of `chakra_converter`, which reads nothing from it.
    pub const V1_1_1_CHAKRA_1: HostVersion = HostVersion {
        schema: "1.1.1-chakra.1.0.0",
        pytorch: "none",
        shape: "as 1.1.1-chakra.0.0.4",
        has_strides: true,
        is_converted: false,
    };

    /// All versions, oldest first.
    pub const ALL: [HostVersion; 7] = [
        HostVersion::V1_0_1,
        HostVersion::V1_0_2,
        HostVersion::V1_0_3,
        HostVersion::V1_0_4,
        HostVersion::V1_1_0,
        HostVersion::V1_1_1,
        HostVersion::V1_1_1_CHAKRA_1,
    ];

    /// Finds a version by the text of `schema`.
    pub fn find(schema: &str) -> Option<HostVersion> {
        let mut all = HostVersion::ALL.into_iter();
        all.find(|version| version.schema == schema)
    }

    /// Finds a version that `chakra_converter` reads by the text of `schema`.
    pub fn find_converted(schema: &str) -> Option<HostVersion> {
        HostVersion::find(schema).filter(|version| version.is_converted)
    }
}
