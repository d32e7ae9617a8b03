// @ts-check
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/**
 * The content of a file in /proc of a process; empty if the process is gone.
 * @param {number} pid
 * @param {string} file
 */
export function readProcess(pid, file) {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

/**
 * Whether the process is running; a zombie is not.
 * @param {number} pid
 */
export function isRunning(pid) {
  const stat = readProcess(pid, 'stat');
  return stat !== '' && !/^[ZX]/.test(stat.slice(stat.lastIndexOf(')') + 2));
}

/** Ids of all processes, with zombies, which have no arguments and no environment any more. */
export const allProcesses = () =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => pid > 0);

/** Ids of all processes that run. */
export const runningProcesses = () => allProcesses().filter(isRunning);

/**
 * Arguments of a process.
 * @param {number} pid
 */
export const argumentsOf = (pid) => readProcess(pid, 'cmdline').split('\0').slice(0, -1);

/**
 * Environment that a process was started with.
 * @param {number} pid
 */
export const environmentOf = (pid) => readProcess(pid, 'environ').split('\0').slice(0, -1);

/**
 * The working directory of a process; empty if it cannot be read.
 * @param {number} pid
 */
export function directoryOf(pid) {
  try {
    return readlinkSync(`/proc/${pid}/cwd`);
  } catch {
    return '';
  }
}
