//! Restores the order in which a recording first named its threads and streams.
//!
//! Threads and queues are numbered by first use in the file, and written graphs contain these
//! numbers. A recording that was converted from another format has its events sorted by time, so
//! such a file states the order ([`KEY`]).

use crate::kineto::event::int;
use crate::kineto::json_values::{list, object};
use etlink_json::JsonValue;
use etlink_model::{DeviceQueue, DeviceTrace, HostThread, QueueIdx, ThreadIdx, TimeNs, TrackLabel};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Key of the recorded order among the fields around the events. The value is an object:
/// `first_start_ns`, `threads` as pairs of `pid` and `tid`, `queues` as device, context and stream.
pub const KEY: &str = "etlinkOrder";

/// Renumbers threads and queues in the order given by `order`; those it does not name come last.
pub(crate) fn restore_order(trace: &mut DeviceTrace, order: JsonValue<'_>) {
    let (mut threads, mut queues, mut first_start) = (vec![], vec![], None);
    object(order, |key, value| match key {
        b"first_start_ns" => first_start = Some(value.int().map(TimeNs)),
        b"threads" => list(value, |thread| threads.extend(pair_thread(trace, thread))),
        b"queues" => list(value, |queue| queues.extend(numbered_queue(queue))),
        _ => {}
    });
    // The value is `null` if no table has the file's first event.
    trace.first_start = first_start.unwrap_or(trace.first_start);
    let places = reorder(&mut trace.threads, &threads);
    for column in [
        &mut trace.ops.thread,
        &mut trace.calls.thread,
        &mut trace.waits.thread,
        &mut trace.auxiliary.thread,
    ] {
        for thread in column.iter_mut() {
            // Auxiliary events of a device have no thread.
            if let Some(place) = places.get(thread.index()) {
                *thread = ThreadIdx::new(*place);
            }
        }
    }
    let places = reorder(&mut trace.queues, &queues);
    for column in [&mut trace.rows.queue, &mut trace.syncs.queue] {
        for queue in column.iter_mut() {
            if let Some(place) = places.get(queue.index()) {
                *queue = QueueIdx::new(*place);
            }
        }
    }
}

/// Moves the items named by `wanted` to the front of `all`, in the order of `wanted`. Returns the
/// new position of each item.
fn reorder<T: Copy + Eq + Hash>(all: &mut Vec<T>, wanted: &[T]) -> Vec<usize> {
    let mut new_places: FxHashMap<T, usize> = FxHashMap::default();
    let known: FxHashMap<T, ()> = all.iter().map(|one| (*one, ())).collect();
    let mut ordered = vec![];
    let named = wanted.iter().filter(|one| known.contains_key(one));
    for one in named.chain(all.iter()) {
        new_places.entry(*one).or_insert_with(|| {
            ordered.push(*one);
            ordered.len() - 1
        });
    }
    let places = all.iter().map(|one| new_places[one]).collect();
    *all = ordered;
    places
}

fn pair_thread(trace: &DeviceTrace, value: JsonValue<'_>) -> Option<HostThread> {
    let mut labels = vec![];
    list(value, |label| {
        labels.extend(match int(Some(label)) {
            Some(number) => Some(TrackLabel::Int(number)),
            None => trace.names.find(&label.text()).map(TrackLabel::Text),
        });
    });
    match labels[..] {
        [pid, tid] => Some(HostThread { pid, tid }),
        _ => None,
    }
}

fn numbered_queue(value: JsonValue<'_>) -> Option<DeviceQueue> {
    let mut numbers = vec![];
    list(value, |number| numbers.extend(number.int()));
    match numbers[..] {
        [device, context, stream] => Some(DeviceQueue {
            device,
            context,
            stream,
        }),
        _ => None,
    }
}
