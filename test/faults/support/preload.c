/*
 * Loaded into a server with LD_PRELOAD. Two things can be set from outside through a file of 256 bytes, named by
 * FAULT_CONTROL and mapped into memory, so that they change while the server runs:
 *   bytes 0-7     seconds that are added to the wall clock (the monotonic clock is left alone)
 *   bytes 8-11    the errno that an opening fails with; 0: none fails
 *   bytes 12-15   how many openings fail still; -1: all
 *   bytes 16-255  the text that a path must contain to fail
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

struct control {
  int64_t offset;
  int32_t error;
  int32_t left;
  char path[240];
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
  const char *name = getenv("FAULT_CONTROL");
  int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
  int fd = name == NULL ? -1 : real(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) control = memory;
}

static int fails(const char *path) {
  if (control == NULL || control->error == 0 || control->left == 0 || path == NULL) return 0;
  if (control->path[0] == 0 || strstr(path, control->path) == NULL) return 0;
  if (control->left > 0) control->left -= 1;
  errno = control->error;
  return 1;
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    static int (*real)(const char *, int, ...); \
    MODE(flags) \
    if (fails(path)) return -1; \
    if (real == NULL) real = dlsym(RTLD_NEXT, #name); \
    return real(path, flags, mode); \
  }

#define OPENAT(name) \
  int name(int directory, const char *path, int flags, ...) { \
    static int (*real)(int, const char *, int, ...); \
    MODE(flags) \
    if (fails(path)) return -1; \
    if (real == NULL) real = dlsym(RTLD_NEXT, #name); \
    return real(directory, path, flags, mode); \
  }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (result == 0 && is_wall && control != NULL) now->tv_sec += control->offset;
  return result;
}

int gettimeofday(struct timeval *now, void *zone) {
  static int (*real)(struct timeval *, void *);
  if (real == NULL) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(now, zone);
  if (result == 0 && control != NULL) now->tv_sec += control->offset;
  return result;
}

time_t time(time_t *where) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (where != NULL) *where = now.tv_sec;
  return now.tv_sec;
}
