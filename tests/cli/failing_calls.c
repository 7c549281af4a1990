// Loaded into `etlink` by tests (LD_PRELOAD), to make calls of the C library fail as a bad disk or a
// full memory does. Rust's standard library, SQLite and zstd all go through these calls.
//
// FAIL_READ=3:EIO      the third call that opens, reads, lists or asks for what lies in FAIL_BELOW
// FAIL_READ=3+:EIO     and all later ones of the same path, as on a bad disk
// FAIL_READ=3:EINTR    the third read, which is to be repeated
// FAIL_READ=0:SHORT    every read gives less than was asked for
// FAIL_ALLOCATION=7    the seventh allocation; FAIL_ALLOCATION=7+ that and all after it
//
// FAIL_CHANGE=any:3:ENOSPC  the third call that changes what lies in FAIL_CHANGE_BELOW: `create`, `make_folder`,
//                      `lock`, `write`, `sync`, `rename`, `remove`, or `any` of them, and with FAIL_OPEN=1
//                      opening and listing. Instead of an error, KILL, STOP and TERM send that signal;
//                      SIGKILL interrupts a write in the middle.
//
// What failed is said on standard error. With the number 0 nothing fails; FAIL_COUNT=FILE is given
// the number of calls, so that a test knows how many there are.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define LONGEST 1024
#define MOST_FILES 1024

static long fail_read, fail_allocation;
static int read_error, is_short, is_lasting, is_for_all;
static const char *below, *count_file, *change_below;
static char change_call[20], change_effect[20];
static long fail_change;
static int counts_opens;
static atomic_long changes;
static atomic_long reads, allocations;
// set once the variables are read: what is allocated before is not the program's
static atomic_int is_ready;
static char names[MOST_FILES][LONGEST], changed[MOST_FILES][LONGEST], failed[LONGEST];

static void write_text(int file, const char *text) {
    ssize_t written = write(file, text, strlen(text));
    (void)written;
}

static void say(const char *call, const char *path) {
    char line[LONGEST + 100];
    snprintf(line, sizeof line, "injected: %s %s\n", call, path);
    write_text(2, line);
}

__attribute__((constructor)) static void read_settings(void) {
    const char *reading = getenv("FAIL_READ"), *allocation = getenv("FAIL_ALLOCATION");
    below = getenv("FAIL_BELOW");
    count_file = getenv("FAIL_COUNT");
    if (reading) {
        is_lasting = strchr(reading, '+') != NULL;
        fail_read = atol(reading);
        is_short = strstr(reading, "SHORT") != NULL;
        read_error = strstr(reading, "EINTR") ? EINTR : EIO;
    }
    if (allocation) {
        fail_allocation = atol(allocation);
        is_for_all = strchr(allocation, '+') != NULL;
    }
    const char *change = getenv("FAIL_CHANGE");
    // programs that etlink starts get the library too
    if (change && strcmp(program_invocation_short_name, "etlink") == 0 &&
        sscanf(change, "%19[^:]:%ld:%19s", change_call, &fail_change, change_effect) == 3) {
        change_below = getenv("FAIL_CHANGE_BELOW");
        counts_opens = getenv("FAIL_OPEN") != NULL;
    }
    atomic_store(&is_ready, 1);
}

__attribute__((destructor)) static void say_count(void) {
    atomic_store(&is_ready, 0);
    if (!count_file)
        return;
    char line[100];
    int file = NEXT(open)(count_file, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    snprintf(line, sizeof line, "%ld %ld", atomic_load(&reads), atomic_load(&allocations));
    write_text(file, line);
    close(file);
}

// The absolute path where it lies below the folder whose calls fail.
static int lies_in(const char *folder, const char *path, char *whole) {
    if (!atomic_load(&is_ready) || !folder || !path)
        return 0;
    if (path[0] == '/') {
        snprintf(whole, LONGEST, "%s", path);
    } else {
        if (!getcwd(whole, LONGEST))
            return 0;
        size_t end = strlen(whole);
        snprintf(whole + end, LONGEST - end, "/%s", path);
    }
    return strncmp(whole, folder, strlen(folder)) == 0;
}

static int lies_below(const char *path, char *whole) { return lies_in(below, path, whole); }

// Fails, or sends a signal, if it is the turn of this call, whose path is absolute.
static int change_fails(const char *call, const char *path) {
    if (strcmp(change_call, "any") != 0 && strcmp(change_call, call) != 0)
        return 0;
    if (atomic_fetch_add(&changes, 1) + 1 != fail_change)
        return 0;
    say(call, path);
    int number = strcmp(change_effect, "KILL") == 0   ? SIGKILL
                 : strcmp(change_effect, "STOP") == 0 ? SIGSTOP
                 : strcmp(change_effect, "TERM") == 0 ? SIGTERM
                                                      : 0;
    if (number) {
        kill(getpid(), number);
        // time for the thread that handles signals
        usleep(20000);
        return 0;
    }
    errno = strcmp(change_effect, "ENOSPC") == 0   ? ENOSPC
            : strcmp(change_effect, "ENOLCK") == 0 ? ENOLCK
                                                   : EIO;
    return 1;
}

static int path_change_fails(const char *call, const char *path) {
    char whole[LONGEST];
    return lies_in(change_below, path, whole) && change_fails(call, whole);
}

static int file_change_fails(const char *call, int file) {
    int is_known = file >= 0 && file < MOST_FILES && changed[file][0];
    return is_known && change_fails(call, changed[file]);
}

static int fails(const char *call, const char *path, int is_read) {
    if (read_error == EINTR && !is_read)
        return 0;
    if (atomic_fetch_add(&reads, 1) + 1 == fail_read) {
        say(call, path);
        if (is_lasting)
            memcpy(failed, path, LONGEST);
    } else if (!failed[0] || strcmp(failed, path) != 0) {
        return 0;
    }
    errno = read_error;
    return 1;
}

static int path_fails(const char *call, const char *path) {
    char whole[LONGEST];
    return lies_below(path, whole) && fails(call, whole, 0);
}

static const char *name_of(int file) {
    return file >= 0 && file < MOST_FILES && names[file][0] ? names[file] : NULL;
}

static int file_fails(const char *call, int file, int is_read) {
    const char *name = name_of(file);
    return name && fails(call, name, is_read);
}

static int opened(int file, const char *path, int flags) {
    char whole[LONGEST];
    if (file >= 0 && file < MOST_FILES) {
        names[file][0] = changed[file][0] = 0;
        if ((flags & O_ACCMODE) == O_RDONLY && lies_below(path, whole))
            memcpy(names[file], whole, LONGEST);
        if (lies_in(change_below, path, whole))
            memcpy(changed[file], whole, LONGEST);
    }
    return file;
}

#define OPEN(name)                                                                                 \
    int name(const char *path, int flags, ...) {                                                   \
        va_list more;                                                                              \
        va_start(more, flags);                                                                     \
        mode_t mode = va_arg(more, mode_t);                                                        \
        va_end(more);                                                                              \
        if ((flags & O_ACCMODE) == O_RDONLY && path_fails("open", path))                           \
            return -1;                                                                             \
        if (((flags & O_ACCMODE) != O_RDONLY || counts_opens) && path_change_fails("create", path)) \
            return -1;                                                                             \
        return opened(NEXT(name)(path, flags, mode), path, flags);                                 \
    }
OPEN(open)
OPEN(open64)

int close(int file) {
    if (file >= 0 && file < MOST_FILES)
        names[file][0] = changed[file][0] = 0;
    return NEXT(close)(file);
}

ssize_t write(int file, const void *buffer, size_t bytes) {
    int is_next = atomic_load(&changes) + 1 == fail_change && strcmp(change_effect, "KILL") == 0;
    if (is_next && file >= 0 && file < MOST_FILES && changed[file][0]) {
        ssize_t half = NEXT(write)(file, buffer, bytes / 2);
        (void)half;
    }
    if (file_change_fails("write", file))
        return -1;
    return NEXT(write)(file, buffer, bytes);
}

int fsync(int file) { return file_change_fails("sync", file) ? -1 : NEXT(fsync)(file); }

int flock(int file, int how) {
    return how != LOCK_UN && file_change_fails("lock", file) ? -1 : NEXT(flock)(file, how);
}

int mkdir(const char *path, mode_t mode) {
    return path_change_fails("make_folder", path) ? -1 : NEXT(mkdir)(path, mode);
}

int rename(const char *from, const char *to) {
    return path_change_fails("rename", to) ? -1 : NEXT(rename)(from, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    return path_change_fails("rename", to) ? -1
                                           : NEXT(linkat)(from_folder, from, to_folder, to, flags);
}

int unlink(const char *path) { return path_change_fails("remove", path) ? -1 : NEXT(unlink)(path); }

int rmdir(const char *path) { return path_change_fails("remove", path) ? -1 : NEXT(rmdir)(path); }

static size_t shortened(int file, size_t bytes) {
    return is_short && name_of(file) && bytes > 1 ? bytes % 4093 / 2 + 1 : bytes;
}

ssize_t read(int file, void *buffer, size_t bytes) {
    if (file_fails("read", file, 1))
        return -1;
    return NEXT(read)(file, buffer, shortened(file, bytes));
}

ssize_t pread64(int file, void *buffer, size_t bytes, off64_t at) {
    if (file_fails("pread", file, 1))
        return -1;
    return NEXT(pread64)(file, buffer, bytes, at);
}

ssize_t copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t bytes, unsigned flags) {
    if (file_fails("copy", from, 1))
        return -1;
    return NEXT(copy_file_range)(from, at, to, to_at, bytes, flags);
}

off64_t lseek64(int file, off64_t at, int whence) {
    if (file_fails("seek", file, 0))
        return -1;
    return NEXT(lseek64)(file, at, whence);
}

int statx(int file, const char *path, int flags, unsigned mask, struct statx *found) {
    if (path[0] ? path_fails("stat", path) : file_fails("stat", file, 0))
        return -1;
    return NEXT(statx)(file, path, flags, mask, found);
}

#define STAT(name, type)                                                                           \
    int name(const char *path, struct type *found) {                                               \
        if (path_fails("stat", path))                                                              \
            return -1;                                                                             \
        return NEXT(name)(path, found);                                                            \
    }
STAT(stat, stat)
STAT(lstat, stat)
STAT(stat64, stat64)
STAT(lstat64, stat64)

int fstat64(int file, struct stat64 *found) {
    if (file_fails("stat", file, 0))
        return -1;
    return NEXT(fstat64)(file, found);
}

DIR *opendir(const char *path) {
    if (path_fails("list", path) || (counts_opens && path_change_fails("open", path)))
        return NULL;
    DIR *folder = NEXT(opendir)(path);
    if (folder)
        opened(dirfd(folder), path, O_RDONLY);
    return folder;
}

struct dirent64 *readdir64(DIR *folder) {
    if (file_fails("list on", dirfd(folder), 0))
        return NULL;
    return NEXT(readdir64)(folder);
}

int closedir(DIR *folder) {
    int file = dirfd(folder);
    if (file >= 0 && file < MOST_FILES)
        names[file][0] = 0;
    return NEXT(closedir)(folder);
}

char *realpath(const char *path, char *found) {
    return path_fails("resolve", path) ? NULL : NEXT(realpath)(path, found);
}

ssize_t readlink(const char *path, char *buffer, size_t bytes) {
    return path_fails("read link", path) ? -1 : NEXT(readlink)(path, buffer, bytes);
}

// By the names of the C library itself: `dlsym` allocates.
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int allocation_fails(void) {
    if (!atomic_load(&is_ready))
        return 0;
    long number = atomic_fetch_add(&allocations, 1) + 1;
    int is_next = number == fail_allocation;
    if (!is_next && !(is_for_all && fail_allocation && number > fail_allocation))
        return 0;
    if (is_next)
        write_text(2, "injected: allocation\n");
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) { return allocation_fails() ? NULL : __libc_malloc(bytes); }

void *calloc(size_t count, size_t bytes) {
    return allocation_fails() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes) {
    return bytes && allocation_fails() ? NULL : __libc_realloc(block, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    if (allocation_fails())
        return ENOMEM;
    *block = __libc_memalign(alignment, bytes);
    return *block ? 0 : ENOMEM;
}
