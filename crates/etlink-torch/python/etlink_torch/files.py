"""Files of a recording: they appear whole under their names, or not at all."""

import contextlib
import errno
import glob
import gzip
import json
import os
import shutil
import socket
import tempfile

from . import flight_recorder, memory_snapshot
from .descriptors import held, opened
from .guard import Failure, attempt
from .process import clock

KINDS = ("torch_et", "kineto_trace")
BESIDE = {"flight_recorder": flight_recorder.file_name, "memory_snapshot": memory_snapshot.file_name}
"""What may lie beside the two traces of a cycle, as the manifest calls it, and its name for a rank."""
OF_CYCLE = ("host_trace", "device_trace", *BESIDE)
"""All files of a cycle, as the manifest calls them."""
TAIL_BYTES = 4096
BLOCK_BYTES = 1 << 20
MARKS = {
    "record_shapes": b'"Input Dims"',
    "with_stack": b'"python_function"',
    "profile_memory": b'"[memory]"',
}
"""What a device trace has of each option, as Kineto writes it; of `with_flops` it has nothing."""


@contextlib.contextmanager
def locked(folder):
    """One process at a time; the lock dies with its process. Without `fcntl`, as on Windows, none."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    path = os.path.join(folder, "lock")
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_current = os.path.exists(path) and os.path.samestat(os.fstat(lock), os.stat(path))
            # who held the lock before may have removed the file
            if is_current:
                yield
                return
        finally:
            os.close(lock)


def hold_shared(path):
    """Opens a file and keeps a shared lock on it for as long as this process lives; the descriptor."""
    import fcntl

    descriptor = opened(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor.number, fcntl.LOCK_SH)
    return descriptor


def is_only_holder(descriptor):
    """Whether no other process holds the shared lock."""
    import fcntl

    if not descriptor.is_ours():
        return False
    try:
        fcntl.flock(descriptor.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False


def leave_folder(work, held):
    """Holds the work folder no more, and removes it if nothing else is in it and no other process needs it."""
    try:
        with locked(work):
            try:
                remove_folder(work, held)
            finally:
                # before the next process looks
                close_held(held)
    finally:
        # also where the lock cannot be had
        close_held(held)


def close_held(held):
    if held is not None:
        attempt(held.close)


def remove_folder(work, held):
    if not set(os.listdir(work)) <= {"lock", "running", "job", "trigger.json", "plan.json", "end.json"}:
        return
    running = os.path.join(work, "running")
    if os.path.exists(running):
        if held is None or not is_only_holder(held):
            return
    for name in os.listdir(work):
        os.remove(os.path.join(work, name))
    os.rmdir(work)


def write_whole(path, text):
    """Replaces a small file: readers see the old text or the new one."""
    temporary = path + ".new"
    try:
        with held(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as file:
            file.write(text)
            file.sync()
        os.replace(temporary, path)
    except BaseException:
        attempt(os.remove, temporary)
        raise


def write_new(path, own, text):
    """Writes a small file that appears whole, unless there is one; `own`: of one that nobody else writes."""
    write_whole(own, text)
    try:
        os.link(own, path)
    except FileExistsError:
        pass
    except OSError:
        # a file system without links: for a moment readers may see it empty
        attempt(write_at_once, path, text)
    finally:
        attempt(os.remove, own)


def write_at_once(path, text):
    """Raises if the file is there."""
    with held(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644) as file:
        try:
            file.write(text)
        except BaseException:
            # an empty request would be one
            attempt(os.remove, path)
            raise


def file_names(rank):
    """What files of a rank are called."""
    names = ["{}_{}.json{}".format(kind, rank, packed) for kind in KINDS for packed in ("", ".gz")]
    return names + [name_of(rank) for name_of in BESIDE.values()]


def recorded_files(folder, rank):
    """The files that a recording has left of a rank."""
    names = file_names(rank)
    places = [folder, *sorted(glob.glob(os.path.join(glob.escape(folder), "cycle_*")))]
    paths = [os.path.join(place, name) for place in places for name in names]
    return [path for path in paths if os.path.exists(path)]


def is_whole(path):
    """Whether a trace of PyTorch comes to its end: its writers do not look whether a write succeeded."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read().rstrip()
    return tail.endswith(b"}") and any(key in tail for key in (b'"traceName"', b'"finish_ts"'))


@contextlib.contextmanager
def plain_path(path):
    """Another path of the same file if Kineto would change this one: it drops line breaks, and takes backslashes for slashes."""
    if "\\" not in path and "\n" not in path:
        yield path
        return
    folder, name = os.path.split(os.path.abspath(path))
    place = tempfile.mkdtemp(prefix="etlink-")
    link = os.path.join(place, "folder")
    try:
        os.symlink(folder, link)
        yield os.path.join(link, name)
    finally:
        attempt(os.remove, link)
        attempt(os.rmdir, place)


def check_end(path):
    """Raises if a trace is cut, or was not made at all."""
    if os.path.exists(path) and is_whole(path):
        return
    raise Failure(
        "a trace of this cycle is incomplete, so the cycle is lost: {}".format(why_unwritten(path))
    )


def why_unwritten(path):
    """What the system says of a file beside it: PyTorch does not tell why it could not write."""
    probe = path + ".probe"
    try:
        with open(probe, "wb") as file:
            # not a byte: a full disk may have room for that
            file.write(b" " * BLOCK_BYTES)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno == errno.EMFILE:
            return "the program has too many files open; raise the limit (`ulimit -n`)"
        if error.errno == errno.ENOSPC:
            return "the disk is full; make room, or choose another folder with -o"
        return "{}; choose another folder with -o".format(error.strerror)
    finally:
        attempt(os.remove, probe)
    return "PyTorch reports no reason; the disk may have been full, or the program had too many files open (`ulimit -n`)"


def remove_trace(path):
    """Removes a trace, and what there is of one that PyTorch could not write to its end.

    Kineto writes `path`.tmp and renames it. On a full disk that file stays, and the stream to it stays open: what it has
    buffered would go into the next trace of the name, which is written into the same file.
    """
    for name in (path, path + ".tmp", path + ".gz"):
        if os.path.exists(name):
            os.remove(name)


def missing(path, options):
    """The options that were asked for and of which a device trace has nothing."""
    left = [name for name in MARKS if options.get(name)]
    overlap = max(map(len, MARKS.values()))
    with open(path, "rb") as file:
        before = b""
        while left:
            block = file.read(BLOCK_BYTES)
            if not block:
                break
            block = before + block
            left = [name for name in left if MARKS[name] not in block]
            # a mark may lie across two blocks
            before = block[-overlap:]
    return left


def sync(path):
    """Waits until the disk has a file: a full disk may show only then."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def publish(settings, traces, beside):
    """Moves finished traces, and what lies beside them, to their names: all of them or none.

    Both are lists of (source, name in the output folder).
    """
    for source, _ in traces:
        check_end(source)
    for source, _ in traces + beside:
        sync(source)
    make_room(settings)
    moves = [(source, os.path.join(settings["output"], name)) for source, name in traces + beside]
    for _, target in moves:
        os.makedirs(os.path.dirname(target), exist_ok=True)
    moved = 0
    try:
        for source, target in moves:
            os.replace(source, target)
            moved += 1
    except BaseException:
        for source, target in moves[:moved]:
            attempt(os.replace, target, source)
        raise


def make_room(settings):
    """Moves the traces of an earlier recording aside, once, before the first new one gets its name.

    The launcher lists them in `old.json` and decides at the end whether they are removed or put back.
    """
    work = settings["work"]
    journal, moved = os.path.join(work, "old.json"), os.path.join(work, "old.moved")
    if not os.path.exists(journal) or os.path.exists(moved):
        return
    with locked(work):
        if os.path.exists(moved):
            return
        with open(journal) as file:
            names = json.load(file)
        for index, name in enumerate(names):
            source = os.path.join(settings["output"], name)
            if os.path.exists(source):
                os.rename(source, os.path.join(work, "{}.old".format(index)))
        write_whole(moved, "")


def is_packed(path):
    with open(path, "rb") as file:
        return file.read(2) == b"\x1f\x8b"


def copy_plain(source, target):
    """Copies a trace of the program; a packed one is unpacked, whatever its name."""
    if is_packed(source):
        with gzip.open(source, "rb") as packed, open(target, "wb") as out:
            shutil.copyfileobj(packed, out, BLOCK_BYTES)
    else:
        shutil.copyfile(source, target)


def read_plain(path, limit):
    """The bytes of a trace of the program. Raises if there are more than `limit`."""
    opened = gzip.open(path, "rb") if is_packed(path) else open(path, "rb")
    with opened as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise ValueError("{} is larger than {} bytes".format(path, limit))
    return content


def detach(path):
    """In a forked child: what this process still has buffered of a file goes nowhere. Needs /proc, as Linux has it."""
    links = "/proc/self/fd"
    if not os.path.isdir(links):
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    path = os.path.realpath(path)
    for name in os.listdir(links):
        try:
            if os.readlink(os.path.join(links, name)) == path:
                os.dup2(nowhere, int(name))
        except OSError:
            continue
    os.close(nowhere)


def pack(path):
    """Replaces a file by `path`.gz; the path that there is afterwards."""
    temporary, packed = path + ".gz.new", path + ".gz"
    try:
        with open(path, "rb") as plain, gzip.open(temporary, "wb", compresslevel=6) as out:
            shutil.copyfileobj(plain, out, 1 << 20)
        sync(temporary)
        os.replace(temporary, packed)
    except BaseException:
        attempt(os.remove, temporary)
        raise
    os.remove(path)
    return packed


def packed_name(output, name):
    """Packs a trace of the output folder; its name there afterwards."""
    if name.endswith(".gz"):
        return name
    return os.path.relpath(pack(os.path.join(output, name)), output)


def show(trace, folder, rank):
    """The device trace once more, as TensorBoard's plugin looks for it: worker, span (the time), ending."""
    ending = ".pt.trace.json.gz" if trace.endswith(".gz") else ".pt.trace.json"
    name = "{}_rank{}.{}{}".format(socket.gethostname(), rank, clock()["unix_ns"], ending)
    target = os.path.join(folder, name)
    try:
        os.link(trace, target)
    except OSError:
        temporary = target + ".new"
        shutil.copyfile(trace, temporary)
        os.replace(temporary, target)


def bytes_recorded(folder):
    """Size of all traces in the output folder."""
    total = 0
    for place in [folder, *glob.glob(os.path.join(glob.escape(folder), "cycle_*"))]:
        for entry in os.scandir(place):
            if entry.name.startswith((*KINDS, "memory_snapshot")):
                total += entry.stat().st_size
    return total
