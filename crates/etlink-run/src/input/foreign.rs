//! Files of other tools that are easily taken for traces, recognised so that an error can name
//! them.

use super::InputKind;
use etlink_formats::memory_snapshot::is_memory_snapshot;
use memchr::memmem;

/// First bytes of files packed in other ways than etlink reads: xz, bzip2, 7z, LZ4.
const OTHER_PACKINGS: [&[u8]; 4] = [b"\xFD7zXZ\0", b"BZh", b"7z\xBC\xAF\x27\x1C", b"\x04\"M\x18"];

/// Bytes in which the first texts of a pickle or the first key of JSON are.
const BEGINNING: usize = 64;

/// Returns the kind of a file that etlink does not read, from its unpacked beginning.
///
/// Sources: names of processes in Ascend's `trace_view.json`; `Tracing.ts` of Chrome's DevTools;
/// rocprof's `tblextr.py`; Proton's `TreeData.cpp`; `torch/cuda/memory.py`.
pub(super) fn foreign_kind(head: &[u8]) -> Option<InputKind> {
    let contains = |text: &str| memmem::find(head, text.as_bytes()).is_some();
    let beginning = &head[..head.len().min(BEGINNING)];
    let text = beginning.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(beginning);
    let text = text.trim_ascii_start().to_ascii_lowercase();
    if head.starts_with(b"PK\x03\x04") || head.get(257..262) == Some(b"ustar") {
        return Some(InputKind::Archive);
    }
    if OTHER_PACKINGS.iter().any(|magic| head.starts_with(magic)) {
        return Some(InputKind::OtherPacking);
    }
    if text.starts_with(b"<!doctype html") || text.starts_with(b"<html") {
        return Some(InputKind::Html);
    }
    if is_memory_snapshot(head) {
        return Some(InputKind::MemorySnapshot);
    }
    if text.starts_with(b"\"index\",\"kernelname\"") || contains("\"CPU HIP API\"") {
        return Some(InputKind::Rocprof);
    }
    if !matches!(text.first(), Some(b'{' | b'[')) {
        return None;
    }
    // Kineto names devices, threads and categories otherwise
    if contains("devtools.timeline") && !contains("\"cpu_op\"") {
        return Some(InputKind::DevTools);
    }
    if contains("\"Ascend Hardware\"") || contains("\"CANN\"") {
        return Some(InputKind::Ascend);
    }
    let is_tree = text.starts_with(b"[") && contains("\"children\"") && contains("\"frame\"");
    if is_tree && contains("\"metrics\"") && !contains("\"ph\"") {
        return Some(InputKind::Proton);
    }
    None
}

/// Returns the remedy for a file of this kind where another kind is needed: the command or option
/// that takes it, or the way to get a trace instead.
pub(super) fn remedy(kind: InputKind) -> &'static str {
    match kind {
        InputKind::Archive => {
            "give it to a command that takes a folder, such as `etlink merge`, with the ending .zip, \
             .tar, .tar.gz or .tar.zst; or unpack it"
        }
        InputKind::OtherPacking => "unpack it, or pack it with gzip or zstd",
        InputKind::Html => {
            "if it was downloaded, the server sent a page instead of the file; if etlink wrote it, \
             give the traces it was made from"
        }
        InputKind::MemorySnapshot => "give it to `etlink analyze` or `etlink report`",
        InputKind::DevTools => "give a trace of PyTorch's profiler",
        InputKind::Rocprof => {
            "record with rocprofv3 (`rocprofv3 --sys-trace --output-format json`) or with PyTorch's \
             profiler"
        }
        InputKind::Ascend => "etlink reads no traces of Ascend devices; MindStudio Insight does",
        InputKind::Proton => "record the same program with PyTorch's profiler",
        InputKind::NsysReport | InputKind::ParquetTable => {
            "export a report of Nsight Systems with `nsys export --type sqlite` instead"
        }
        InputKind::Timeline => {
            "give the trace it was made from; of PyTorch's own collector, its trace as JSON"
        }
        InputKind::ChakraEt | InputKind::ChakraJson | InputKind::EtPlus => {
            "give one of the traces it was made from"
        }
        InputKind::FlightRecorder => {
            "give the folder of all dumps to `etlink ranks`, or put it next to the traces"
        }
        InputKind::NcclInspector => "give its folder to `etlink ranks`",
        InputKind::AstraLog => "give it to `etlink simulated`",
        InputKind::KernelMetrics | InputKind::RequestLatencies | InputKind::WorkloadCard => {
            "give a trace of the same run, and this file as --metrics"
        }
        InputKind::HostTrace => "give it as --host, with the device trace of the same rank",
        InputKind::KinetoTrace
        | InputKind::XlaSpace
        | InputKind::XlaJson
        | InputKind::RocprofJson
        | InputKind::RocpdSqlite
        | InputKind::NsysSqlite => "give it as the device trace",
        InputKind::OtherSqlite => "see `etlink inspect`",
        InputKind::Unknown => "see `etlink inspect`, and `etlink check` for a .et",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_other_tools_are_known() {
        let mut tar = vec![b'x'; 600];
        tar[257..262].copy_from_slice(b"ustar");
        let files: [(&[u8], InputKind); 12] = [
            (b"PK\x03\x04\x14", InputKind::Archive),
            (&tar, InputKind::Archive),
            (b"\xFD7zXZ\0\0\x04", InputKind::OtherPacking),
            (b"\n<!DOCTYPE html><html>", InputKind::Html),
            (b"\xEF\xBB\xBF<html lang=\"en\">", InputKind::Html),
            (
                b"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94(\x8c\x08segments\x94]",
                InputKind::MemorySnapshot,
            ),
            (
                b"{\"metadata\":{\"source\":\"DevTools\"},\"traceEvents\":[{\"cat\":\"disabled-by-default-devtools.timeline\",\"ph\":\"X\"}]}",
                InputKind::DevTools,
            ),
            (
                b"\"Index\",\"KernelName\",\"gpu-id\",\"queue-id\"",
                InputKind::Rocprof,
            ),
            (
                b"{ \"traceEvents\":[{}\n,{\"args\":{\"name\":\"CPU HIP API\"},\"ph\":\"M\"}",
                InputKind::Rocprof,
            ),
            (
                b"[{\"name\": \"process_name\", \"args\": {\"name\": \"Ascend Hardware\"}}",
                InputKind::Ascend,
            ),
            (
                b"[{\"name\": \"process_name\", \"args\": {\"name\": \"CANN\"}}",
                InputKind::Ascend,
            ),
            (
                b"[{\"children\":[{\"children\":[],\"frame\":{\"name\":\"mm\"},\"metrics\":{\"time (ns)\":3}}]",
                InputKind::Proton,
            ),
        ];
        for (head, kind) in files {
            assert_eq!(foreign_kind(head), Some(kind));
            assert!(kind.is_foreign(), "{kind:?}");
        }
        let traces: [&[u8]; 3] = [
            b"{\"schemaVersion\": 1, \"traceEvents\": [{\"cat\": \"cpu_op\", \"name\": \"devtools.timeline\"}]}",
            b"[{\"ph\": \"X\", \"args\": {\"children\": 1, \"frame\": 2, \"metrics\": 3}}]",
            b"",
        ];
        for head in traces {
            assert_eq!(foreign_kind(head), None);
        }
    }
}
