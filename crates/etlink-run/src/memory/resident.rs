//! How much memory the process has, and had at most, as the system counts it: without the pages of
//! the program itself, which come and go with what of it runs.

use super::system::word_value;

/// What a process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Now, bytes.
    pub(crate) now: u64,
    /// At most until now, bytes.
    pub(crate) most: u64,
}

/// What this process holds; `None` where the system does not say as Linux does.
pub(crate) fn resident() -> Option<Resident> {
    // the file that also says the most: one that is shorter has only what is held now
    held(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn held(status: &str) -> Option<Resident> {
    let bytes = |word| word_value(status, word)?.checked_mul(1024);
    let (now, program) = (bytes("RssAnon:")?, bytes("RssFile:")?);
    // The most is told of all together. The program's pages are hardly ever fewer than before.
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
        // Linux adds up the pages of a process in batches, of each processor by itself
        let uncounted = 1 << 20;
        assert!(during.now + uncounted >= block.len() as u64, "{during:?}");
        assert!(during.now <= during.most, "{during:?}");
    }
}
