/*
 * Loaded into a server with LD_PRELOAD. A file of 8 bytes, named by FAULT_CONTROL and mapped into memory, so that it can be
 * changed while the server runs, has the seconds that are added to the wall clock. The monotonic clock is left alone.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

struct control {
  int64_t offset;
};

static struct control *control;

__attribute__((constructor)) static void map_control(void) {
  const char *name = getenv("FAULT_CONTROL");
  int fd = name == NULL ? -1 : open(name, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *memory = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory != MAP_FAILED) control = memory;
}

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
