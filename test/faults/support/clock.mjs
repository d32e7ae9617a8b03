import { spawnSync } from 'node:child_process';
import { renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';

/** Moves the wall clock by what a file says, and makes the monotonic clock and its timers run faster. */
const source = `
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>

static long number(const char *name, long otherwise) {
  const char *text = getenv(name);
  return text ? atol(text) : otherwise;
}

static long moved(void) {
  const char *name = getenv("CLOCK_FILE");
  FILE *file = name ? fopen(name, "re") : NULL;
  long seconds = 0;
  if (file) {
    if (fscanf(file, "%ld", &seconds) != 1) seconds = 0;
    fclose(file);
  }
  return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, now);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) now->tv_sec += moved();
  long speed = number("CLOCK_SPEED", 1);
  if ((clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) && speed > 1) {
    __int128 nanoseconds = ((__int128)now->tv_sec * 1000000000 + now->tv_nsec) * speed;
    now->tv_sec = (time_t)(nanoseconds / 1000000000);
    now->tv_nsec = (long)(nanoseconds % 1000000000);
  }
  return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  static int (*real)(struct timeval *, void *);
  if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
  int result = real(now, zone);
  now->tv_sec += moved();
  return result;
}

static int scaled(int timeout) {
  long speed = number("CLOCK_SPEED", 1);
  return timeout > 0 && speed > 1 ? (int)(timeout / speed) + 1 : timeout;
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
  static int (*real)(int, struct epoll_event *, int, int);
  if (!real) real = dlsym(RTLD_NEXT, "epoll_wait");
  return real(fd, events, most, scaled(timeout));
}

int epoll_pwait(int fd, struct epoll_event *events, int most, int timeout, const sigset_t *mask) {
  static int (*real)(int, struct epoll_event *, int, int, const sigset_t *);
  if (!real) real = dlsym(RTLD_NEXT, "epoll_pwait");
  return real(fd, events, most, scaled(timeout), mask);
}
`;

/** A clock for one server. */
export class Clock {
  /** @returns null where there is no compiler */
  static make(context, { speed = 1 } = {}) {
    const library = path.join(context.scratch, `clock-${context.serial()}.so`);
    writeFileSync(`${library}.c`, source);
    const words = ['-shared', '-fPIC', '-O1', '-o', library, `${library}.c`, '-ldl'];
    if (spawnSync('cc', words, { stdio: 'ignore' }).status !== 0) return null;
    return new Clock(library, speed);
  }

  constructor(library, speed) {
    this.file = `${library}.moved`;
    this.environment = { LD_PRELOAD: library, CLOCK_FILE: this.file, CLOCK_SPEED: String(speed) };
    this.move(0);
  }

  /** Sets the wall clock so many seconds ahead of the machine's, or behind. */
  move(seconds) {
    writeFileSync(`${this.file}.new`, String(seconds));
    renameSync(`${this.file}.new`, this.file);
  }
}
