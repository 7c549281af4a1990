//! Processes and threads as Perfetto numbers them.
//!
//! Its numbers are positive 32-bit integers; 0 is its idle thread. Kineto writes any integer and
//! also text (`"Spans"`). Numbers that fit stay, others get a free one; the names say what they
//! were. In a file of several ranks all numbers are new, from 1 for the first rank, from 1,000,001
//! for the second: processes of two machines can have one.

use super::TimelineRank;
use super::lanes::TrackLanes;
use super::sink::{TimelineSink, TrackId, TrackProcess};
use crate::track_names::TrackNames;
use etlink_model::{DeviceTrace, HostThread, TimeNs, TrackLabel};
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

/// One host thread or device stream.
#[derive(Debug)]
struct TrackPlace {
    name: String,
    lanes: TrackLanes,
    tracks: Vec<TrackId>,
    pid: u32,
}

/// All of them: threads as in [`DeviceTrace::threads`], then queues as in [`DeviceTrace::queues`].
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
    /// The rank, in a file of several.
    rank: Option<String>,
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
        let natural = |label: TrackLabel| perfetto_number(label).filter(|_| member.is_none());
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
            rank,
        };
        tracks.add_process(path.pid, "critical path", 0, None, out)?;
        out.name_thread(path, "steps")?;
        let names = TrackNames::new(device);
        tracks.add_threads(&names, natural, out)?;
        tracks.add_queues(&names, out)?;
        Ok(tracks)
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
        natural: impl Fn(TrackLabel) -> Option<u32>,
        out: &mut dyn TimelineSink,
    ) -> io::Result<()> {
        let mut processes: BTreeMap<TrackLabel, u32> = BTreeMap::new();
        for thread in &names.device.threads {
            let pid = match processes.get(&thread.pid) {
                Some(pid) => *pid,
                None => {
                    let pid = natural(thread.pid).map_or_else(|| self.numbers.free_number(), Ok)?;
                    processes.insert(thread.pid, pid);
                    let name = process_name(names, thread.pid);
                    self.add_process(pid, &name, processes.len(), None, out)?;
                    pid
                }
            };
            self.places.push(TrackPlace {
                name: thread_name(names, *thread),
                lanes: TrackLanes::new(true),
                tracks: vec![],
                pid,
            });
            // Two processes may have threads of one number; Perfetto takes them as one.
            let natural = natural(thread.tid).filter(|tid| !self.tids.contains(tid));
            self.add_track(self.places.len() - 1, natural, out)?;
        }
        Ok(())
    }

    fn add_queues(&mut self, names: &TrackNames<'_>, out: &mut dyn TimelineSink) -> io::Result<()> {
        let device = names.device;
        for queue in &device.queues {
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
            self.places.push(TrackPlace {
                name: names.queue_name(queue),
                lanes: TrackLanes::new(false),
                tracks: vec![],
                pid,
            });
            self.add_track(self.places.len() - 1, None, out)?;
        }
        Ok(())
    }

    /// The track of the next range of thread or queue `place`. Ranges come in order of start, the
    /// longer first.
    pub(super) fn track_for(
        &mut self,
        place: usize,
        start: TimeNs,
        end: TimeNs,
        out: &mut dyn TimelineSink,
    ) -> io::Result<TrackId> {
        let lane = self.places[place].lanes.place_range(start, end) as usize;
        while self.places[place].tracks.len() <= lane {
            self.add_track(place, None, out)?;
        }
        Ok(self.places[place].tracks[lane])
    }

    fn add_track(
        &mut self,
        place: usize,
        natural: Option<u32>,
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
        out.name_thread(track, &name)
    }
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
        None => format!("process {}", names.device.label(pid)),
    }
}

fn thread_name(names: &TrackNames<'_>, thread: HostThread) -> String {
    match names.thread_name(thread) {
        Some(name) => name.to_owned(),
        None => format!("thread {}", names.device.label(thread.tid)),
    }
}
