import { readFileSync, writeFileSync } from 'node:fs';

/**
 * Processor and memory use, as Linux's /proc tells it. A process that is gone throws here, where the tests and the fault
 * harness take it as one that uses nothing: a measurement must not have a figure for what it could not read.
 */

/** Clock ticks a second: 100 on every Linux that Node runs on. */
const ticks = 100;

/** Fields of a stat file behind the name, which may hold anything. */
function statFields(pid) {
  const text = readFileSync(`/proc/${pid}/stat`, 'latin1');
  return text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
}

/** Seconds of processor time that a process has used, without its children. */
export function cpuSeconds(pid) {
  const fields = statFields(pid);
  return (fields[11] + fields[12]) / ticks;
}

/** Seconds of processor time of the children of this process that have ended. */
export function cpuSecondsOfChildren() {
  const fields = statFields('self');
  return (fields[13] + fields[14]) / ticks;
}

function memory(pid, field) {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN) / 1024;
}

/** MiB that a process has resident now. */
export const residentMemory = (pid) => memory(pid, 'VmRSS');

/** The most MiB that it has had resident since its start, or since `resetPeak`. */
export const peakMemory = (pid) => memory(pid, 'VmHWM');

/** Makes what is resident now the peak (proc(5), clear_refs). */
export const resetPeak = (pid) => writeFileSync(`/proc/${pid}/clear_refs`, '5');
