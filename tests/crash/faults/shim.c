/* Stands between a program and its disk and clock (LD_PRELOAD).
 *
 * SHIM_ROOT     the folder that is watched; everything else passes untouched
 * SHIM_LOG      if set: every change under the folder is written here, in the order in which it took effect
 * SHIM_CONTROL  a page shared with the test (struct control): errors to give, and how far the date is off
 *
 * A sync does not wait for the real disk: the log is the disk. Its record says up to where in the log it covers, which is
 * what had been written when it began; it takes effect where the record stands, which is when it ended. The record's place
 * is taken before the caller hears of it, so an acknowledgement that was written because of a sync always stands behind it.
 *
 * As on Linux, a sync that fails is reported once through each descriptor of the file that was open at the time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { DB = 1, WAL = 2, SHM = 4, FOLDER = 8, OTHER = 16 };
enum { AT_WRITE, AT_SYNC, AT_TRUNCATE, AT_OPEN, AT_NAME, AT_READ, PLACES };
enum { ROOT = 1, CREATE, WRITE, TRUNCATE, SYNC, SYNC_FAILED, RENAME, UNLINK, MKDIR };

struct control {
    int32_t error[PLACES]; /* the errno to give; 0: none */
    int32_t skip[PLACES];  /* so many pass first */
    int32_t every[PLACES]; /* then only each such one is struck; 0: each */
    int32_t passed[PLACES];
    int32_t files;         /* kinds that are struck; 0: all */
    int32_t sync_us;       /* how long a sync takes; one that is under way ends when less is written here */
    int64_t clock_ns;      /* added to the date */
    int64_t struck;        /* how many were given an error */
};

struct header {
    uint32_t op, path_size, other_size, pad;
    uint64_t inode, at, data_size;
};

#define MAX_FD 65536
#define MAX_FAILED 64
static unsigned char kinds[MAX_FD];
static uint32_t reported[MAX_FD]; /* how many failed syncs of its file a descriptor has reported, or came after */
static struct {
    uint64_t inode;
    uint32_t count;
} failures[MAX_FAILED];
static char root[4096];
static size_t root_size;
static int log_fd = -1;
static volatile struct control none, *control = &none;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_read)(int, void *, size_t);
static ssize_t (*real_pread)(int, void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_rename)(const char *, const char *);
static int (*real_unlink)(const char *);
static int (*real_mkdir)(const char *, mode_t);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

static uint64_t inode_of(const char *path)
{
    struct stat facts;
    return stat(path, &facts) ? 0 : facts.st_ino;
}

static void record(uint32_t op, uint64_t inode, uint64_t at, const char *path, const char *other, const void *data,
                   size_t size)
{
    if (log_fd < 0)
        return;
    struct header header = {op, path ? strlen(path) : 0, other ? strlen(other) : 0, 0, inode, at, size};
    struct iovec parts[] = {{&header, sizeof header},
                            {(void *)path, header.path_size},
                            {(void *)other, header.other_size},
                            {(void *)data, size}};
    size_t whole = sizeof header + header.path_size + header.other_size + size;
    if (writev(log_fd, parts, 4) != (ssize_t)whole) {
        static const char text[] = "shim: the log could not be written\n";
        syscall(SYS_write, 2, text, sizeof text - 1);
        _exit(99);
    }
}

/* When the program starts; again in one that was forked, which has another environment. */
__attribute__((constructor)) void shim_begin(void)
{
    real_open = dlsym(RTLD_NEXT, "open");
    real_openat = dlsym(RTLD_NEXT, "openat");
    real_close = dlsym(RTLD_NEXT, "close");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_read = dlsym(RTLD_NEXT, "read");
    real_pread = dlsym(RTLD_NEXT, "pread");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_mkdir = dlsym(RTLD_NEXT, "mkdir");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    const char *shared = getenv("SHIM_CONTROL"), *log = getenv("SHIM_LOG"), *watched = getenv("SHIM_ROOT");
    if (shared) {
        int fd = real_open(shared, O_RDWR | O_CLOEXEC);
        void *page = fd < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (page == MAP_FAILED)
            abort();
        real_close(fd);
        control = page;
    }
    if (watched) {
        root_size = strlen(watched);
        memcpy(root, watched, root_size + 1);
    }
    if (log) {
        log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        if (log_fd < 0)
            abort();
        record(ROOT, inode_of(root), 0, root, NULL, NULL, 0);
    }
}

/* What kind of file a path is; 0: not watched. The path is made absolute in `whole`. */
static int kind_of(const char *path, char whole[4096])
{
    if (!root_size || !path)
        return 0;
    if (path[0] == '/')
        snprintf(whole, 4096, "%s", path);
    else {
        char here[2048];
        if (!getcwd(here, sizeof here))
            return 0;
        snprintf(whole, 4096, "%s/%s", here, path);
    }
    size_t size = strlen(whole);
    while (size > 1 && whole[size - 1] == '/')
        whole[--size] = 0;
    if (strncmp(whole, root, root_size) || (whole[root_size] && whole[root_size] != '/'))
        return 0;
    if (size > 3 && !strcmp(whole + size - 3, ".db"))
        return DB;
    if (size > 4 && !strcmp(whole + size - 4, "-wal"))
        return WAL;
    if (size > 4 && !strcmp(whole + size - 4, "-shm"))
        return SHM;
    return OTHER;
}

static int kind(int fd) { return fd >= 0 && fd < MAX_FD ? kinds[fd] : 0; }

/* Is an error due here? Sets errno. */
static int strikes(int place, int kind)
{
    if (!kind || !control->error[place] || (control->files && !(control->files & kind)))
        return 0;
    if (control->skip[place] > 0) {
        __sync_fetch_and_sub(&control->skip[place], 1);
        return 0;
    }
    if (control->every[place] && __sync_add_and_fetch(&control->passed[place], 1) % control->every[place])
        return 0;
    __sync_fetch_and_add(&control->struck, 1);
    errno = control->error[place];
    return 1;
}

static uint64_t inode(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) ? 0 : facts.st_ino;
}

/* How many syncs of a file have failed. Called with the lock. */
static volatile uint32_t *failed_syncs(uint64_t inode)
{
    int slot = 0;
    while (failures[slot].inode && failures[slot].inode != inode)
        if (++slot == MAX_FAILED)
            abort();
    failures[slot].inode = inode;
    return &failures[slot].count;
}

static int opened(int folder, const char *path, int flags, mode_t mode)
{
    char whole[4096];
    int found = folder == AT_FDCWD || (path && path[0] == '/') ? kind_of(path, whole) : 0;
    if (!found)
        return real_openat(folder, path, flags, mode);
    int writes = (flags & O_ACCMODE) != O_RDONLY;
    if (writes && strikes(AT_OPEN, found))
        return -1;
    pthread_mutex_lock(&lock);
    int new = (flags & O_CREAT) && access(whole, F_OK) != 0;
    int fd = real_openat(folder, path, flags, mode);
    if (fd >= 0 && fd < MAX_FD) {
        struct stat facts;
        if (!fstat(fd, &facts) && S_ISDIR(facts.st_mode))
            found = FOLDER;
        kinds[fd] = found;
        if (found == DB || found == WAL)
            reported[fd] = *failed_syncs(inode(fd));
        if (found != SHM && new)
            record(CREATE, inode(fd), 0, whole, NULL, NULL, 0);
        else if (found != SHM && (flags & O_TRUNC) && writes)
            record(TRUNCATE, inode(fd), 0, NULL, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&lock);
    return fd;
}

#define MODE \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE return opened(folder, path, flags, mode); }

int close(int fd)
{
    if (fd >= 0 && fd < MAX_FD)
        kinds[fd] = 0;
    return real_close(fd);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
    int found = kind(fd);
    if (!found)
        return real_pwrite(fd, data, size, at);
    if (strikes(AT_WRITE, found))
        return -1;
    pthread_mutex_lock(&lock);
    ssize_t written = real_pwrite(fd, data, size, at);
    if (written > 0 && found != SHM)
        record(WRITE, inode(fd), at, NULL, NULL, data, written);
    pthread_mutex_unlock(&lock);
    return written;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t at) { return pwrite(fd, data, size, at); }

ssize_t write(int fd, const void *data, size_t size)
{
    int found = kind(fd);
    if (!found)
        return real_write(fd, data, size);
    if (strikes(AT_WRITE, found))
        return -1;
    pthread_mutex_lock(&lock);
    ssize_t written = real_write(fd, data, size);
    if (written > 0)
        record(WRITE, inode(fd), lseek(fd, 0, SEEK_CUR) - written, NULL, NULL, data, written);
    pthread_mutex_unlock(&lock);
    return written;
}

ssize_t read(int fd, void *data, size_t size)
{
    return strikes(AT_READ, kind(fd)) ? -1 : real_read(fd, data, size);
}
ssize_t pread(int fd, void *data, size_t size, off_t at)
{
    return strikes(AT_READ, kind(fd)) ? -1 : real_pread(fd, data, size, at);
}
ssize_t pread64(int fd, void *data, size_t size, off_t at) { return pread(fd, data, size, at); }

int ftruncate(int fd, off_t size)
{
    int found = kind(fd);
    if (!found)
        return real_ftruncate(fd, size);
    if (strikes(AT_TRUNCATE, found))
        return -1;
    pthread_mutex_lock(&lock);
    int failed = real_ftruncate(fd, size);
    if (!failed && found != SHM)
        record(TRUNCATE, inode(fd), size, NULL, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int fsync(int fd)
{
    int found = kind(fd);
    if (!found)
        return real_fsync(fd);
    pthread_mutex_lock(&lock);
    off_t covered = log_fd < 0 ? 0 : lseek(log_fd, 0, SEEK_END);
    pthread_mutex_unlock(&lock);
    for (int32_t waited = 0; waited < control->sync_us; waited += 1000)
        usleep(1000);
    int failed = strikes(AT_SYNC, found) ? errno : 0;
    pthread_mutex_lock(&lock);
    record(failed ? SYNC_FAILED : SYNC, inode(fd), covered, NULL, NULL, NULL, 0);
    if (found == DB || found == WAL) {
        volatile uint32_t *count = failed_syncs(inode(fd));
        if (failed)
            ++*count;
        else if (reported[fd] != *count)
            failed = EIO;
        reported[fd] = *count;
    }
    pthread_mutex_unlock(&lock);
    errno = failed;
    return failed ? -1 : 0;
}
int fdatasync(int fd) { return fsync(fd); }

int rename(const char *from, const char *to)
{
    char whole_from[4096], whole_to[4096];
    int found = kind_of(from, whole_from);
    if (!found || !kind_of(to, whole_to))
        return real_rename(from, to);
    if (strikes(AT_NAME, found))
        return -1;
    pthread_mutex_lock(&lock);
    int failed = real_rename(from, to);
    if (!failed)
        record(RENAME, 0, 0, whole_from, whole_to, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int unlink(const char *path)
{
    char whole[4096];
    int found = kind_of(path, whole);
    if (!found)
        return real_unlink(path);
    if (strikes(AT_NAME, found))
        return -1;
    pthread_mutex_lock(&lock);
    int failed = real_unlink(path);
    if (!failed && found != SHM)
        record(UNLINK, 0, 0, whole, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

int mkdir(const char *path, mode_t mode)
{
    char whole[4096];
    int found = kind_of(path, whole);
    if (!found)
        return real_mkdir(path, mode);
    if (strikes(AT_NAME, found))
        return -1;
    pthread_mutex_lock(&lock);
    int failed = real_mkdir(path, mode);
    if (!failed)
        record(MKDIR, inode_of(whole), 0, whole, NULL, NULL, 0);
    pthread_mutex_unlock(&lock);
    return failed;
}

/* The date. Monotonic clocks are left alone, as a person who sets the date leaves them alone. */

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int failed = real_clock_gettime(clock, now);
    if (!failed && control->clock_ns && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI)) {
        int64_t all = now->tv_sec * 1000000000LL + now->tv_nsec + control->clock_ns;
        now->tv_sec = all / 1000000000LL;
        now->tv_nsec = all % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return failed;
}

time_t time(time_t *out)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out)
        *out = exact.tv_sec;
    return exact.tv_sec;
}
