//! Assigns Perfetto's process and thread numbers.
//!
//! Perfetto's numbers are positive 32-bit integers; 0 is its idle thread. Kineto writes any integer
//! and also text (`"Spans"`). Numbers that fit are kept, others are replaced by free ones; the
//! names state the original. Events that would hide or cross the ops of a thread or the rows of a
//! stream get a separate track next to it: Python frames, annotations, waits, allocations. In a
//! file of several ranks all numbers are new, from 1 for the first rank, from 1,000,001 for the
//! second, because processes of two machines can have the same number.

use super::TimelineRank;
use super::lanes::TrackLanes;
use super::sink::{TimelineSink, TrackId, TrackProcess};
use super::slices::{TraceSlice, TraceSlices};
use crate::track_names::TrackNames;
use etlink_model::{AuxiliaryKind, DeviceTrace, HostThread, TimeNs, TrackLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Name of the parent of all tracks in a single trace.
const WHOLE_TRACE: &str = "trace";
/// Largest number of process or thread numbers per rank.
const ROOM: u32 = 1_000_000;

/// Process or thread numbers in use.
#[derive(Debug, Default)]
struct TrackNumbers {
    taken: BTreeSet<u32>,
    next: u32,
    /// Offset of the rank's numbers.
    base: u32,
    room: u32,
}

impl TrackNumbers {
    /// Creates the numbers of one rank.
    fn for_member(member: Option<&TimelineRank<'_>>) -> TrackNumbers {
        let most = i32::MAX.unsigned_abs();
        // A power of ten per rank: the leading digits of a number identify the rank.
        let room = |ranks: u32| {
            most.checked_div(ranks)
                .and_then(u32::checked_ilog10)
                .map_or(0, |digits| 10u32.pow(digits))
                .min(ROOM)
        };
        let (base, room) = member.map_or((0, most), |member| {
            (
                member.place.saturating_mul(room(member.of)),
                room(member.of),
            )
        });
        TrackNumbers {
            taken: BTreeSet::new(),
            next: 0,
            base,
            room,
        }
    }

    /// Returns an unused number.
    fn free_number(&mut self) -> io::Result<u32> {
        loop {
            self.next += 1;
            if self.next >= self.room {
                return Err(io::Error::other(format!(
                    "more than {} threads, streams and other tracks",
                    self.room
                )));
            }
            if self.taken.insert(self.base + self.next) {
                return Ok(self.base + self.next);
            }
        }
    }
}

/// A host thread, a device stream, or a group of events shown next to it.
#[derive(Debug)]
struct TrackPlace {
    name: String,
    lanes: TrackLanes,
    tracks: Vec<TrackId>,
    pid: u32,
    /// Process and thread that most of the events name in the recording.
    recorded: Option<HostThread>,
}

impl TrackPlace {
    /// Makes a place without tracks, whose ranges may nest.
    fn new(pid: u32, name: String, recorded: HostThread) -> TrackPlace {
        TrackPlace {
            name,
            lanes: TrackLanes::new(true),
            tracks: vec![],
            pid,
            recorded: Some(recorded),
        }
    }
}

/// All tracks of a rank.
#[derive(Debug, Default)]
pub(super) struct TrackTable {
    numbers: TrackNumbers,
    places: Vec<TrackPlace>,
    /// Thread numbers in use.
    tids: BTreeSet<u32>,
    /// Track of the critical path.
    pub(super) path: TrackId,
    /// Process numbers of devices.
    pub(super) device_pids: BTreeMap<i64, u32>,
    /// Process numbers of host processes.
    pub(super) host_pids: BTreeMap<TrackLabel, u32>,
    /// Name of the rank, in a file of several ranks.
    rank: Option<String>,
    /// Places of threads, as in [`DeviceTrace::threads`].
    thread_places: Vec<usize>,
    /// Places of queues, as in [`DeviceTrace::queues`].
    queue_places: Vec<usize>,
    /// Places of Python frames, by thread.
    python_places: BTreeMap<usize, usize>,
    /// Places of synchronisation rows, by queue.
    wait_places: BTreeMap<usize, usize>,
    /// Places of stream annotations, by recorded track.
    annotation_places: BTreeMap<u32, usize>,
    /// Places of all other events, by recorded track.
    other_places: BTreeMap<u32, usize>,
}

/// Places that a trace needs in addition to threads and streams.
#[derive(Default)]
struct ExtraPlaces {
    python: BTreeSet<usize>,
    waits: BTreeSet<usize>,
    annotations: BTreeSet<u32>,
    others: BTreeSet<u32>,
    /// Process and thread named by the first row of each queue.
    queue_tracks: BTreeMap<usize, HostThread>,
}

impl ExtraPlaces {
    fn new(device: &DeviceTrace) -> ExtraPlaces {
        let mut extra = ExtraPlaces::default();
        let Some(details) = &device.details else {
            return extra;
        };
        for (queue, track) in device.rows.queue.iter().zip(&details.rows.track) {
            if let Some(track) = details.tracks.get(*track as usize) {
                extra.queue_tracks.entry(queue.index()).or_insert(*track);
            }
        }
        extra
            .waits
            .extend(device.syncs.queue.iter().map(|queue| queue.index()));
        let auxiliary = &device.auxiliary;
        for (row, track) in details.auxiliary.track.iter().enumerate() {
            match auxiliary.kind[row] {
                AuxiliaryKind::Python => {
                    extra.python.insert(auxiliary.thread[row].index());
                }
                AuxiliaryKind::DeviceAnnotation => {
                    extra.annotations.insert(*track);
                }
                AuxiliaryKind::Overhead => {
                    extra.others.insert(*track);
                }
            }
        }
        extra.others.extend(&details.memory.track);
        extra.others.extend(&details.other_details.track);
        extra
    }
}

impl TrackTable {
    /// Numbers and names the processes, the critical path first.
    pub(super) fn new(
        device: &DeviceTrace,
        member: Option<&TimelineRank<'_>>,
        out: &mut dyn TimelineSink,
    ) -> io::Result<TrackTable> {
        let mut numbers = TrackNumbers::for_member(member);
        // A single trace keeps its own numbers, which users know from their process lists.
        let natural = |label: TrackLabel| {
            if member.is_none() {
                perfetto_number(label)
            } else {
                None
            }
        };
        numbers.taken.extend(
            device
                .threads
                .iter()
                .flat_map(|thread| [natural(thread.pid), natural(thread.tid)])
                .flatten(),
        );
        // The critical path takes free numbers after the trace's own numbers are marked as used.
        let path = TrackId {
            pid: numbers.free_number()?,
            tid: numbers.free_number()?,
        };
        let rank = member.map(|member| member.name.to_owned());
        out.name_rank(
            rank.as_deref().unwrap_or(WHOLE_TRACE),
            member.map_or(0, |member| member.place),
        )?;
        let mut tracks = TrackTable {
            numbers,
            path,
            rank,
            ..TrackTable::default()
        };
        tracks.add_process(path.pid, "critical path", 0, None, out)?;
        out.name_thread(path, "steps", None)?;
        let names = TrackNames::new(device);
        let extra = ExtraPlaces::new(device);
        tracks.add_threads(&names, &extra, natural, out)?;
        tracks.add_queues(&names, &extra, out)?;
        tracks.add_others(&names, &extra, out)?;
        Ok(tracks)
    }

    /// Returns the place of a range.
    pub(super) fn place_of(&self, slices: &TraceSlices<'_>, slice: TraceSlice) -> usize {
        let (trace, device) = (slices.trace, &slices.trace.device);
        let recorded = slices.detail(slice).map_or(u32::MAX, |detail| detail.track);
        let extra = match slice {
            TraceSlice::Op(at) => return self.thread_place(device.ops.thread[at as usize].index()),
            TraceSlice::Call(at) => {
                return self.thread_place(device.calls.thread[at as usize].index());
            }
            TraceSlice::Row(at) => return self.queue_place(device.rows.queue[at as usize].index()),
            TraceSlice::Node(node) => {
                let node = trace.nodes.get(node);
                return if node.on_device {
                    self.queue_place(node.track.index())
                } else {
                    self.thread_place(node.track.index())
                };
            }
            TraceSlice::Transfer(_) => {
                let whole = slices.whole_slice(slice);
                return whole.map_or(0, |whole| self.place_of(slices, whole));
            }
            TraceSlice::Sync(at) => {
                let queue = device.syncs.queue[at as usize].index();
                self.wait_places.get(&queue)
            }
            TraceSlice::Auxiliary(at) => match device.auxiliary.kind[at as usize] {
                AuxiliaryKind::Python => {
                    let thread = device.auxiliary.thread[at as usize].index();
                    self.python_places.get(&thread)
                }
                AuxiliaryKind::DeviceAnnotation => self.annotation_places.get(&recorded),
                AuxiliaryKind::Overhead => self.other_places.get(&recorded),
            },
            TraceSlice::Memory(_) | TraceSlice::Other(_) => self.other_places.get(&recorded),
        };
        debug_assert!(extra.is_some(), "each kept event has a place: {slice:?}");
        extra.copied().unwrap_or_default()
    }

    /// Returns the name of a queue's first track.
    pub(super) fn queue_label(&self, queue: usize) -> &str {
        let place = self.places.get(self.queue_place(queue));
        place.map_or("", |place| &place.name)
    }

    fn thread_place(&self, thread: usize) -> usize {
        self.thread_places.get(thread).copied().unwrap_or_default()
    }

    fn queue_place(&self, queue: usize) -> usize {
        self.queue_places.get(queue).copied().unwrap_or_default()
    }

    fn add_process(
        &self,
        pid: u32,
        name: &str,
        place: usize,
        label: Option<&str>,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let place = u32::try_from(place)
            .unwrap_or(u32::MAX)
            // A sort index beyond the limit would fall among the processes of the next rank.
            .min(self.numbers.room.saturating_sub(1))
            + self.numbers.base;
        out.name_process(TrackProcess {
            pid,
            rank: self.rank.as_deref(),
            name,
            place,
            label,
        })
    }

    fn add_threads(
        &mut self,
        names: &TrackNames<'_>,
        extra: &ExtraPlaces,
        natural: impl Fn(TrackLabel) -> Option<u32>,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let mut others = BTreeMap::new();
        if let Some(details) = &names.device.details {
            for other in &extra.others {
                others.insert(details.tracks[*other as usize], *other);
            }
        }
        for (at, thread) in names.device.threads.iter().enumerate() {
            let pid = match self.host_pids.get(&thread.pid) {
                Some(pid) => *pid,
                None => {
                    let pid = natural(thread.pid).map_or_else(|| self.numbers.free_number(), Ok)?;
                    self.host_pids.insert(thread.pid, pid);
                    let name = process_name(names, thread.pid);
                    self.add_process(pid, &name, self.host_pids.len(), None, out)?;
                    pid
                }
            };
            let name = thread_name(names, *thread);
            let place = |name: String| TrackPlace::new(pid, name, *thread);
            // Frames are shown above the ops that they call.
            if extra.python.contains(&at) {
                let frames = place(format!("{name} · Python"));
                let frames = self.add_place(frames, None, names, out)?;
                self.python_places.insert(at, frames);
            }
            // Two processes may have threads with the same number, which Perfetto would merge.
            let number = natural(thread.tid).filter(|tid| !self.tids.contains(tid));
            let plain = self.add_place(place(name.clone()), number, names, out)?;
            self.thread_places.push(plain);
            if let Some(other) = others.get(thread) {
                let events = place(format!("{name} · events"));
                let events = self.add_place(events, None, names, out)?;
                self.other_places.insert(*other, events);
            }
        }
        Ok(())
    }

    fn add_queues(
        &mut self,
        names: &TrackNames<'_>,
        extra: &ExtraPlaces,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let device = names.device;
        let mut annotations = BTreeMap::new();
        if let Some(details) = &device.details {
            for track in &extra.annotations {
                annotations.insert(details.tracks[*track as usize], *track);
            }
        }
        for (at, queue) in device.queues.iter().enumerate() {
            let pid = match self.device_pids.get(&queue.device) {
                Some(pid) => *pid,
                None => {
                    // Devices never keep their numbers: 0 is reserved by Perfetto, and others may
                    // belong to processes.
                    let pid = self.numbers.free_number()?;
                    self.device_pids.insert(queue.device, pid);
                    let label = names.device_model(queue.device);
                    self.add_process(
                        pid,
                        &format!("device {}", queue.device),
                        device.threads.len() + self.device_pids.len(),
                        label,
                        out,
                    )?;
                    pid
                }
            };
            let name = names.queue_name(queue);
            // Kineto gives an annotation device and stream numbers as process and thread, but no
            // context: the first stream with these numbers gets it.
            let recorded = HostThread {
                pid: TrackLabel::Int(queue.device),
                tid: TrackLabel::Int(queue.stream),
            };
            if let Some(track) = annotations.remove(&recorded) {
                let above = TrackPlace::new(pid, format!("{name} · annotations"), recorded);
                let above = self.add_place(above, None, names, out)?;
                self.annotation_places.insert(track, above);
            }
            let plain = TrackPlace {
                lanes: TrackLanes::new(false),
                recorded: extra.queue_tracks.get(&at).copied(),
                ..TrackPlace::new(pid, name.clone(), recorded)
            };
            let plain = self.add_place(plain, None, names, out)?;
            self.queue_places.push(plain);
            if extra.waits.contains(&at) {
                // Stream -1 is the host, which waits for a whole context or for an event.
                let name = match queue.stream {
                    -1 => "host waits".to_owned(),
                    _ => format!("{name} · waits"),
                };
                let waits = TrackPlace::new(pid, name, recorded);
                let waits = self.add_place(waits, None, names, out)?;
                self.wait_places.insert(at, waits);
            }
        }
        Ok(())
    }

    /// Adds tracks for events that are on no thread or stream of the tables.
    fn add_others(
        &mut self,
        names: &TrackNames<'_>,
        extra: &ExtraPlaces,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let device = names.device;
        let Some(details) = &device.details else {
            return Ok(());
        };
        let mut other_pid = None;
        for track in extra.others.union(&extra.annotations) {
            let is_annotation = extra.annotations.contains(track);
            let is_other = extra.others.contains(track);
            let lacks_annotation = is_annotation && !self.annotation_places.contains_key(track);
            let lacks_other = is_other && !self.other_places.contains_key(track);
            if !lacks_annotation && !lacks_other {
                continue;
            }
            let recorded = details.tracks[*track as usize];
            let mut name = thread_name(names, recorded);
            let pid = match (self.known_process(recorded.pid), other_pid) {
                (Some(pid), _) => pid,
                // Events without a process in the tables share one process: most tracks have one
                // event.
                (None, known) => {
                    name = name_with_process(names, recorded);
                    match known {
                        Some(pid) => pid,
                        None => {
                            let pid = self.numbers.free_number()?;
                            other_pid = Some(pid);
                            let last = device.threads.len() + device.queues.len() + 1;
                            self.add_process(pid, "other events", last, None, out)?;
                            pid
                        }
                    }
                }
            };
            let place = TrackPlace::new(pid, name, recorded);
            let place = self.add_place(place, None, names, out)?;
            if lacks_annotation {
                self.annotation_places.insert(*track, place);
            }
            if lacks_other {
                self.other_places.insert(*track, place);
            }
        }
        Ok(())
    }

    /// Returns the file's process for a recorded `pid`: a host process, else a device.
    pub(super) fn known_process(&self, label: TrackLabel) -> Option<u32> {
        let host = self.host_pids.get(&label);
        let device = match label {
            TrackLabel::Int(number) => self.device_pids.get(&number),
            TrackLabel::Text(_) => None,
        };
        host.or(device).copied()
    }

    fn add_place(
        &mut self,
        place: TrackPlace,
        natural: Option<u32>,
        names: &TrackNames<'_>,
        out: &mut dyn TimelineSink,
    ) -> io::Result<usize> {
        self.places.push(place);
        let at = self.places.len() - 1;
        self.add_track(at, natural, names.device, out)?;
        Ok(at)
    }

    /// Returns the track of the next range at `place`. Ranges must come in order of start, the
    /// longer first.
    pub(super) fn track_for(
        &mut self,
        place: usize,
        start: TimeNs,
        end: TimeNs,
        device: &DeviceTrace,
        out: &mut dyn TimelineSink,
    ) -> io::Result<TrackId> {
        let lane = self.places[place].lanes.place_range(start, end) as usize;
        while self.places[place].tracks.len() <= lane {
            self.add_track(place, None, device, out)?;
        }
        Ok(self.places[place].tracks[lane])
    }

    fn add_track(
        &mut self,
        place: usize,
        natural: Option<u32>,
        device: &DeviceTrace,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let tid = natural.map_or_else(|| self.numbers.free_number(), Ok)?;
        let of = &mut self.places[place];
        let track = TrackId { pid: of.pid, tid };
        of.tracks.push(track);
        self.tids.insert(tid);
        // The first track has the plain name, and is the only one if nothing overlaps.
        let overflow = of.tracks.len() > 1;
        let name = if overflow {
            format!("{} ({})", of.name, of.tracks.len())
        } else {
            of.name.clone()
        };
        let recorded = if device.details.is_some() {
            of.recorded
        } else {
            None
        };
        let recorded = recorded.map(|recorded| recorded_text(device, recorded));
        out.name_thread(track, &name, recorded.as_deref())
    }
}

/// Formats a recorded track as `pid 12, tid "Spans"`: text labels are quoted as in JSON.
fn recorded_text(device: &DeviceTrace, track: HostThread) -> String {
    let [pid, tid] = [track.pid, track.tid].map(|label| match label {
        TrackLabel::Int(number) => number.to_string(),
        TrackLabel::Text(name) => serde_json::Value::from(device.names.get(name)).to_string(),
    });
    format!("pid {pid}, tid {tid}")
}

/// Returns the label's number if Perfetto accepts it.
fn perfetto_number(label: TrackLabel) -> Option<u32> {
    match label {
        TrackLabel::Int(number) => i32::try_from(number)
            .ok()
            .filter(|number| *number > 0)
            .map(i32::unsigned_abs),
        TrackLabel::Text(_) => None,
    }
}

fn process_name(names: &TrackNames<'_>, pid: TrackLabel) -> String {
    match names.process_name(pid) {
        Some(name) => name.to_owned(),
        None => label_name("process", &names.device.label(pid)),
    }
}

fn thread_name(names: &TrackNames<'_>, thread: HostThread) -> String {
    match names.thread_name(thread) {
        Some(name) => name.to_owned(),
        None => label_name("thread", &names.device.label(thread.tid)),
    }
}

/// Returns a thread's name prefixed by its process, for use among threads of other processes.
fn name_with_process(names: &TrackNames<'_>, thread: HostThread) -> String {
    let process = process_name(names, thread.pid);
    let own = thread_name(names, thread);
    if own == process {
        own
    } else {
        format!("{process} · {own}")
    }
}

/// Names a label; Kineto writes two empty labels for its last event, the end of the recording.
fn label_name(what: &str, label: &str) -> String {
    match label {
        "" => "recording".to_owned(),
        _ => format!("{what} {label}"),
    }
}
