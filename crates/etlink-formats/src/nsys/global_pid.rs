//! Ids of processes and threads in a report.

/// Number of low bits of a `globalTid` that hold the thread id.
pub(crate) const TID_BITS: u32 = 24;

/// Process of a report: machine and virtual machine in the highest 16 bits, process id in the next
/// 24, then 24 zeros ("Serialized process and thread identifiers" in the guide of Nsight Systems).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GlobalPid(pub i64);

impl GlobalPid {
    /// Returns the process of a thread.
    pub fn of_thread(global_tid: i64) -> GlobalPid {
        GlobalPid(global_tid & !((1 << TID_BITS) - 1))
    }

    /// Returns the system process id.
    pub fn pid(self) -> i64 {
        (self.0 >> TID_BITS) & 0xff_ffff
    }
}

/// Returns the thread id in a `globalTid`.
pub(crate) fn thread_id(global_tid: i64) -> i64 {
    global_tid & ((1 << TID_BITS) - 1)
}
