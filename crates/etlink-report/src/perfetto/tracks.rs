//! Processes and threads as Perfetto numbers them.
//!
//! Its numbers are positive 32-bit integers; 0 is its idle thread. Kineto writes any integer and
//! also text (`"Spans"`). Numbers that fit stay, others get a free one; the names say what they
//! were. What would hide or cross the ops of a thread or the rows of a stream has a track of its own
//! beside it: Python frames, annotations, waits, allocations. In a file of several ranks all numbers are new, from 1 for the first rank, from 1,000,001
//! for the second: processes of two machines can have one.

use super::TimelineRank;
use super::lanes::TrackLanes;
use super::sink::{TimelineSink, TrackId, TrackProcess};
use super::slices::{TraceSlice, TraceSlices};
use crate::track_names::TrackNames;
use etlink_model::{AuxiliaryKind, DeviceTrace, HostThread, TimeNs, TrackLabel};
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// What all tracks of a single trace are below.
const WHOLE_TRACE: &str = "trace";
/// So many numbers at most are a rank's.
const ROOM: u32 = 1_000_000;

/// Numbers that are taken, by processes or threads.
#[derive(Debug)]
struct TrackNumbers {
    taken: BTreeSet<u32>,
    next: u32,
    /// Before the first.
    base: u32,
    room: u32,
}

impl TrackNumbers {
    /// Those of one rank.
    fn for_member(member: Option<&TimelineRank<'_>>) -> TrackNumbers {
        let most = i32::MAX.unsigned_abs();
        // A power of ten for each rank: the leading digits of a number say whose it is.
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

    /// A number that no other has.
    fn free_number(&mut self) -> io::Result<u32> {
        loop {
            self.next += 1;
            if self.next >= self.room {
                return Err(io::Error::other(format!(
                    "there are more than {} threads, streams and what runs beside them",
                    self.room
                )));
            }
            if self.taken.insert(self.base + self.next) {
                return Ok(self.base + self.next);
            }
        }
    }
}

/// One host thread or device stream, or what is shown beside it.
#[derive(Debug)]
struct TrackPlace {
    name: String,
    lanes: TrackLanes,
    tracks: Vec<TrackId>,
    pid: u32,
    /// How most of its events name process and thread.
    recorded: Option<HostThread>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct TrackTable {
    numbers: TrackNumbers,
    places: Vec<TrackPlace>,
    /// Threads of Perfetto that there are.
    tids: BTreeSet<u32>,
    /// The critical path's.
    pub(super) path: TrackId,
    /// Processes of the devices.
    pub(super) device_pids: BTreeMap<i64, u32>,
    /// Other processes.
    pub(super) host_pids: BTreeMap<TrackLabel, u32>,
    /// The rank, in a file of several.
    rank: Option<String>,
    /// By thread, as in [`DeviceTrace::threads`].
    thread_places: Vec<usize>,
    /// By queue, as in [`DeviceTrace::queues`].
    queue_places: Vec<usize>,
    /// By thread, where its Python frames are.
    python_places: BTreeMap<usize, usize>,
    /// By queue, where its synchronisation rows are.
    wait_places: BTreeMap<usize, usize>,
    /// By recorded track, where its annotations of a stream are.
    annotation_places: BTreeMap<u32, usize>,
    /// By recorded track, where what else it has is.
    other_places: BTreeMap<u32, usize>,
}

/// Which places beside threads and streams a trace needs.
#[derive(Default)]
struct ExtraPlaces {
    python: BTreeSet<usize>,
    waits: BTreeSet<usize>,
    annotations: BTreeSet<u32>,
    others: BTreeSet<u32>,
    /// By queue, how its first row names process and thread.
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
    /// Numbers the processes and makes them known, the critical path first.
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
        // The critical path takes free numbers after the trace's own are known to be taken.
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
            places: vec![],
            tids: BTreeSet::new(),
            path,
            device_pids: BTreeMap::new(),
            host_pids: BTreeMap::new(),
            rank,
            thread_places: vec![],
            queue_places: vec![],
            python_places: BTreeMap::new(),
            wait_places: BTreeMap::new(),
            annotation_places: BTreeMap::new(),
            other_places: BTreeMap::new(),
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

    /// The place that a range is at.
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

    /// How the recording names process and thread of the events of a place, where that is known.
    pub(super) fn recorded_track(&self, place: usize) -> Option<HostThread> {
        self.places.get(place)?.recorded
    }

    /// What the first track of a queue is called.
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
            // A sort index beyond the room would stand among the processes of the next rank.
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
            let place = |name: String| TrackPlace {
                name,
                lanes: TrackLanes::new(true),
                tracks: vec![],
                pid,
                recorded: Some(*thread),
            };
            // Frames stand above the ops that they call.
            if extra.python.contains(&at) {
                let frames = place(format!("{name} · Python"));
                let frames = self.add_place(frames, None, names, out)?;
                self.python_places.insert(at, frames);
            }
            // Two processes may have threads of one number; Perfetto takes them as one.
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
                    // Devices never keep their numbers: 0 is taken by Perfetto, and others may be
                    // those of processes.
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
            let place = |name: String, nests: bool, recorded: Option<HostThread>| TrackPlace {
                name,
                lanes: TrackLanes::new(nests),
                tracks: vec![],
                pid,
                recorded,
            };
            // Kineto gives an annotation the numbers of device and stream as process and thread,
            // and no context: the first stream of these numbers has it.
            let recorded = HostThread {
                pid: TrackLabel::Int(queue.device),
                tid: TrackLabel::Int(queue.stream),
            };
            if let Some(track) = annotations.remove(&recorded) {
                let above = place(format!("{name} · annotations"), true, Some(recorded));
                let above = self.add_place(above, None, names, out)?;
                self.annotation_places.insert(track, above);
            }
            let of_rows = extra.queue_tracks.get(&at).copied();
            let plain = place(name.clone(), false, of_rows);
            let plain = self.add_place(plain, None, names, out)?;
            self.queue_places.push(plain);
            if extra.waits.contains(&at) {
                // Stream -1 stands for the host, which waits for all of a context or for an event.
                let name = match queue.stream {
                    -1 => "waits of the host".to_owned(),
                    _ => format!("{name} · waits"),
                };
                let waits = place(name, true, Some(recorded));
                let waits = self.add_place(waits, None, names, out)?;
                self.wait_places.insert(at, waits);
            }
        }
        Ok(())
    }

    /// Tracks of events that are on no thread or stream of the tables.
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
                // All that are of no process of the tables stand in one: most have one event.
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
            let place = TrackPlace {
                name,
                lanes: TrackLanes::new(true),
                tracks: vec![],
                pid,
                recorded: Some(recorded),
            };
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

    /// The process in the file of a `pid` of the recording: a host process, else a device.
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

    /// The track of the next range of thread or queue `place`. Ranges come in order of start, the
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
        // The first track has the plain name, which is all of it where nothing overlaps.
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

/// `pid 12, tid "Spans"`: labels that are texts are quoted as in JSON.
fn recorded_text(device: &DeviceTrace, track: HostThread) -> String {
    let [pid, tid] = [track.pid, track.tid].map(|label| match label {
        TrackLabel::Int(number) => number.to_string(),
        TrackLabel::Text(name) => serde_json::Value::from(device.names.get(name)).to_string(),
    });
    format!("pid {pid}, tid {tid}")
}

/// The number that Perfetto can take over.
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

/// What a thread is called where it stands among those of other processes.
fn name_with_process(names: &TrackNames<'_>, thread: HostThread) -> String {
    let process = process_name(names, thread.pid);
    let own = thread_name(names, thread);
    if own == process {
        own
    } else {
        format!("{process} · {own}")
    }
}

/// Kineto writes two empty labels: its last event is the end of the recording.
fn label_name(what: &str, label: &str) -> String {
    match label {
        "" => "recording".to_owned(),
        _ => format!("{what} {label}"),
    }
}
