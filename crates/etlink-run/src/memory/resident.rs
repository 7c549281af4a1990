//! Current and peak memory of the process according to the system, without the pages of the program
//! itself, which vary with the code that runs.

use super::system::word_value;

/// Memory held by a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Current memory, bytes.
    pub(crate) now: u64,
    /// Peak memory, bytes.
    pub(crate) most: u64,
}

/// Returns the memory of this process; `None` if the system does not report it like Linux.
pub(crate) fn resident() -> Option<Resident> {
    // this file includes the peak; shorter ones have only the current memory
    held(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn held(status: &str) -> Option<Resident> {
    let bytes = |word| word_value(status, word)?.checked_mul(1024);
    let (now, program) = (bytes("RssAnon:")?, bytes("RssFile:")?);
    // The peak includes all pages. The program's pages hardly ever decrease.
    let most = bytes("VmHWM:")?.saturating_sub(program);
    Some(Resident {
        now,
        most: most.max(now),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_as_linux_writes_it() {
        let status = "Name:\tetlink\nVmHWM:\t   19084 kB\nVmRSS:\t   17036 kB\n\
            RssAnon:\t    5036 kB\nRssFile:\t   12000 kB\n";
        let held = held(status).expect("it has all");
        assert_eq!((held.now, held.most), (5_036 << 10, 7_084 << 10));
        assert_eq!(super::held("Name:\tetlink\n"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_taken_is_counted() {
        let block = std::hint::black_box(vec![1u8; 64 << 20]);
        let during = resident().expect("Linux says it");
        // Linux sums up pages in batches, per processor
        let uncounted = 1 << 20;
        assert!(during.now + uncounted >= block.len() as u64, "{during:?}");
        assert!(during.now <= during.most, "{during:?}");
    }
}
