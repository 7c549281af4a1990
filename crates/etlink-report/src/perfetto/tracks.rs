//! Processes and threads as Perfetto numbers them.
//!
//! Its numbers are positive 32-bit integers; 0 is its idle thread. Kineto writes any integer and also
//! text (`"Spans"`). Numbers that fit stay, others get a free one; the names say what they were.

use super::events::{Events, Meta, Track};
use super::lanes::Lanes;
use etlink_model::{DeviceTrace, Label, Queue, Thread, TimeNs};
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Numbers that are taken, by processes or threads.
#[derive(Debug, Default)]
struct Numbers {
    taken: BTreeSet<u32>,
    next: u32,
}

impl Numbers {
    /// A number that no other has.
    fn free(&mut self) -> u32 {
        loop {
            self.next += 1;
            if self.taken.insert(self.next) {
                return self.next;
            }
        }
    }
}

/// One host thread or device stream.
#[derive(Debug)]
struct Place {
    name: String,
    lanes: Lanes,
    tracks: Vec<Track>,
    pid: u32,
}

/// All of them: threads as in [`DeviceTrace::threads`], then queues as in [`DeviceTrace::queues`].
#[derive(Debug)]
pub(super) struct Tracks {
    numbers: Numbers,
    places: Vec<Place>,
    /// The critical path's.
    pub(super) path: Track,
}

impl Tracks {
    /// Numbers the processes and writes their names, the critical path first.
    pub(super) fn new<W: Write>(device: &DeviceTrace, out: &mut Events<'_, W>) -> io::Result<Tracks> {
        let mut numbers = Numbers::default();
        numbers.taken.extend(device.threads.iter().flat_map(|thread| [number(thread.pid), number(thread.tid)]).flatten());
        let path = Track { pid: numbers.free(), tid: numbers.free() };
        process(out, path.pid, "critical path", 0)?;
        thread(out, path, "steps")?;
        let mut tracks = Tracks { numbers, places: vec![], path };
        tracks.threads(device, out)?;
        tracks.queues(device, out)?;
        Ok(tracks)
    }

    fn threads<W: Write>(&mut self, device: &DeviceTrace, out: &mut Events<'_, W>) -> io::Result<()> {
        let mut processes: Vec<(Label, u32)> = vec![];
        for of in &device.threads {
            let pid = match processes.iter().find(|(label, _)| *label == of.pid) {
                Some((_, pid)) => *pid,
                None => {
                    let pid = number(of.pid).unwrap_or_else(|| self.numbers.free());
                    processes.push((of.pid, pid));
                    process(out, pid, &process_name(device, of.pid), processes.len())?;
                    pid
                }
            };
            self.places.push(Place { name: thread_name(device, *of), lanes: Lanes::new(true), tracks: vec![], pid });
            let natural = number(of.tid).filter(|tid| !self.is_track(*tid));
            self.add_track(self.places.len() - 1, natural, out)?;
        }
        Ok(())
    }

    fn queues<W: Write>(&mut self, device: &DeviceTrace, out: &mut Events<'_, W>) -> io::Result<()> {
        let mut processes: Vec<(i64, u32)> = vec![];
        for queue in &device.queues {
            let pid = match processes.iter().find(|(number, _)| *number == queue.device) {
                Some((_, pid)) => *pid,
                None => {
                    let pid = self.numbers.free();
                    processes.push((queue.device, pid));
                    process(out, pid, &format!("device {}", queue.device), device.threads.len() + processes.len())?;
                    let model = usize::try_from(queue.device).ok().and_then(|at| device.header.devices.get(at));
                    let labels = model.filter(|model| !model.is_empty());
                    labels.map_or(Ok(()), |model| out.metadata(Track { pid, tid: pid }, "process_labels", "labels", Meta::Text(model)))?;
                    pid
                }
            };
            self.places.push(Place { name: queue_name(device, queue), lanes: Lanes::new(false), tracks: vec![], pid });
            self.add_track(self.places.len() - 1, None, out)?;
        }
        Ok(())
    }

    /// The track of the next range of thread or queue `place`. Ranges come in order of start, the longer first.
    pub(super) fn of<W: Write>(&mut self, place: usize, start: TimeNs, end: TimeNs, out: &mut Events<'_, W>) -> io::Result<Track> {
        let lane = self.places[place].lanes.place(start, end) as usize;
        while self.places[place].tracks.len() <= lane {
            self.add_track(place, None, out)?;
        }
        Ok(self.places[place].tracks[lane])
    }

    fn add_track<W: Write>(&mut self, place: usize, natural: Option<u32>, out: &mut Events<'_, W>) -> io::Result<()> {
        let tid = natural.unwrap_or_else(|| self.numbers.free());
        let of = &mut self.places[place];
        let track = Track { pid: of.pid, tid };
        of.tracks.push(track);
        let overflow = of.tracks.len() > 1;
        let name = if overflow { format!("{} ({})", of.name, of.tracks.len()) } else { of.name.clone() };
        thread(out, track, &name)
    }

    fn is_track(&self, tid: u32) -> bool {
        self.places.iter().any(|place| place.tracks.iter().any(|track| track.tid == tid))
    }
}

/// The number that Perfetto can take over.
fn number(label: Label) -> Option<u32> {
    match label {
        Label::Int(number) => i32::try_from(number).ok().filter(|number| *number > 0).map(i32::unsigned_abs),
        Label::Text(_) => None,
    }
}

fn process<W: Write>(out: &mut Events<'_, W>, pid: u32, name: &str, place: usize) -> io::Result<()> {
    let track = Track { pid, tid: pid };
    out.metadata(track, "process_name", "name", Meta::Text(name))?;
    out.metadata(track, "process_sort_index", "sort_index", Meta::Number(place as i64))
}

fn thread<W: Write>(out: &mut Events<'_, W>, track: Track, name: &str) -> io::Result<()> {
    out.metadata(track, "thread_name", "name", Meta::Text(name))
}

fn process_name(device: &DeviceTrace, pid: Label) -> String {
    let said = device.process_names.iter().find(|(of, _)| *of == pid);
    said.map_or_else(|| format!("process {}", device.label(pid)), |(_, name)| device.names.get(*name).to_owned())
}

fn thread_name(device: &DeviceTrace, thread: Thread) -> String {
    let said = device.thread_names.iter().find(|(of, _)| *of == thread);
    said.map_or_else(|| format!("thread {}", device.label(thread.tid)), |(_, name)| device.names.get(*name).trim().to_owned())
}

/// A stream's name; where a device has several contexts with that stream, also the context's.
fn queue_name(device: &DeviceTrace, queue: &Queue) -> String {
    let same = |other: &&Queue| other.device == queue.device && other.stream == queue.stream;
    match device.queues.iter().filter(same).count() {
        0 | 1 => format!("stream {}", queue.stream),
        _ => format!("stream {} of context {}", queue.stream, queue.context),
    }
}
