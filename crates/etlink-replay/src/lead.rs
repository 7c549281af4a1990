//! Lead of a host over its devices, which a changed run must not use up.
//!
//! ```text
//! recorded   host    |1--|2--|3--|                devices are slower: the lead grows
//!            device      .....|1------|2------|3------|
//! changed    host    |1--|2--|3--|                devices are quicker: they use the lead up, and are
//!            device      .....|1-|2-|3-|          as slow as the host in all later steps
//! ```
//! A few recorded steps would seem as short as the work of the devices in them, where a long run takes
//! as long as the host.

/// Lead of a host over the devices in the first and the last step of a window, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLead {
    /// From the begin of the first step on the host to that on the devices.
    pub begin_ns: i64,
    /// From the end of the last step on the host to that on the devices.
    pub end_ns: i64,
}

impl HostLead {
    /// Returns the time by which a changed run of length `changed_ns` is too short, because it uses up
    /// the lead that the run without changes, of length `plain_ns`, keeps. The run gets no longer than
    /// without changes. O(1).
    pub fn used_ns(self, changed: HostLead, plain_ns: i64, changed_ns: i64) -> i64 {
        let used = |lead: HostLead| lead.begin_ns.saturating_sub(lead.end_ns).max(0);
        let more_ns = used(changed).saturating_sub(used(self));
        let most_ns = plain_ns.saturating_sub(changed_ns).max(0);
        more_ns.min(changed.begin_ns).clamp(0, most_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::HostLead;

    #[test]
    fn steps_are_no_shorter_than_those_of_the_host() {
        let lead = |begin_ns, end_ns| HostLead { begin_ns, end_ns };
        let recorded = lead(30, 38);
        // three steps of 16 on the host, of 19 on the devices, which would take 8 without their waits
        assert_eq!(recorded.used_ns(lead(30, 6), 57, 24), 24);
        // devices that wait for the host anyway have no lead
        assert_eq!(lead(1, 1).used_ns(lead(1, 0), 57, 24), 1);
        // steps that are quicker, but slower than the host
        assert_eq!(recorded.used_ns(lead(30, 32), 57, 51), 0);
        // steps that are slower
        assert_eq!(recorded.used_ns(lead(30, 60), 57, 80), 0);
        // no longer than without changes
        assert_eq!(recorded.used_ns(lead(30, 2), 57, 40), 17);
    }
}
