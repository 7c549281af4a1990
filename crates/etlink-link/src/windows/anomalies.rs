//! What is wrong in a window, counted once, as of the whole trace.

use super::survey::{LinkWindow, Survey};
use crate::host::tensors::TensorUsers;
use crate::matching::Matching;
use crate::matching::compare::differences_of;
use etlink_model::{Anomalies, AnomalyKind, DeviceTrace, HostIdx, HostTrace, NameId, OpIdx};

/// Ids of parents that are not looked for: none, and the process root, which a cut file lacks.
const NO_PARENT: u64 = 0;
const PROCESS: u64 = 1;

/// What the two traces say differently of the ops that begin in a window.
pub(super) fn window_differences(
    survey: &Survey,
    window: &LinkWindow,
    (host, device, matching): (&HostTrace, &DeviceTrace, &Matching),
    op_parent: &[OpIdx],
) -> Anomalies {
    let is_own = |op: usize| window.has(device.ops.start[op]);
    let is_op = |id| survey.has_op(id);
    differences_of(host, device, matching, op_parent, (is_own, is_op))
}

/// Counts host nodes of a window whose parent is not in the file. Whether one has a parent that begins
/// after it: such nodes may be their own ancestors.
pub(super) fn count_orphans(
    survey: &Survey,
    window: &LinkWindow,
    host: &HostTrace,
    anomalies: &mut Anomalies,
) -> bool {
    let mut has_later_parents = false;
    for (row, id) in host.nodes.id.iter().enumerate() {
        let parent = host.nodes.parent[row];
        let is_looked_for = parent != NO_PARENT && parent != PROCESS;
        if !window.ids.contains(id) || !is_looked_for || host.is_root(row) {
            continue;
        }
        if !survey.has_node(parent) {
            anomalies.note(AnomalyKind::OrphanNode, || {
                format!("id {id}, parent {parent}")
            });
        } else {
            has_later_parents |= parent >= *id;
        }
    }
    has_later_parents
}

/// How many ids both traces have, under different names, of the ops that begin in a window.
pub(super) fn other_names(
    window: &LinkWindow,
    (host, device, matching): (&HostTrace, &DeviceTrace, &Matching),
) -> u64 {
    if matching.same_id_other_name == 0 {
        return 0;
    }
    let mut ids = host.nodes.rf_id.clone();
    ids.sort_unstable();
    let mut count = 0;
    for (op, id) in device.ops.rf_id.iter().enumerate() {
        // ids of ops are unique here: only the name can have kept them apart
        let is_unmatched = id.get().is_some() && matching.op_host[op] == HostIdx::NONE;
        let is_own = window.has(device.ops.start[op]);
        count += u64::from(is_unmatched && is_own && ids.binary_search(id).is_ok());
    }
    count
}

/// Users of tensors that were forgotten in the windows so far.
#[derive(Default)]
pub(super) struct DroppedUsers {
    count: u64,
    /// Per user so far, the name of its node: these have the same numbers in all windows.
    names: Vec<NameId>,
}

impl DroppedUsers {
    /// Counts those that were forgotten since the window before. `rows` are the users of this one.
    pub(super) fn note(
        &mut self,
        users: &TensorUsers,
        (host, rows): (&HostTrace, &[HostIdx]),
        anomalies: &mut Anomalies,
    ) {
        let names = &host.nodes.name;
        self.names.extend(rows.iter().map(|row| names[row.index()]));
        let (count, first) = users.dropped();
        let place = first.map(|first| format!("{:?}", host.names.get(self.names[first.index()])));
        anomalies.add(AnomalyKind::TensorUsersDropped, count - self.count, place);
        self.count = count;
    }
}
