import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { processIds, readStatus } from '../files/process-status.js';
import type { RunEnd } from './protocol.js';
import { signal } from './terminate.js';

/** Maximum number of characters kept of bwrap's report, which is two short lines. */
const maxStatus = 64 * 1024;
/** Shells, and bwrap, add a signal's number to this. */
const signalBase = 128;

/** The signal that an exit code from 129 on stands for. */
const signalOf = (code: number): string | undefined =>
  Object.entries(constants.signals).find(([, number]) => number === code - signalBase)?.[0];

/**
 * Reads bwrap's report of how the command ended.
 * @returns the exit code, once the stream has ended; undefined if the command was never started
 */
export function readStatusOf(stream: Readable): Promise<number | undefined> {
  let text = '';
  stream.on('data', (chunk: Buffer) => {
    if (text.length < maxStatus) text += chunk.toString('latin1');
  });
  stream.on('error', () => {});
  return new Promise((resolve) => {
    stream.once('close', () => {
      const code = /"exit-code"\s*:\s*(\d+)/.exec(text)?.[1];
      resolve(code === undefined ? undefined : Number(code));
    });
  });
}

/**
 * How a command ended, given the exit code that bwrap reports: bwrap turns a signal into an exit code from 129 on. Shells do the
 * same for the program that they run, so a command that itself exits with such a code also counts as ended by the signal.
 */
export function endOfCode(code: number): Pick<RunEnd, 'exitCode' | 'signal'> {
  const name = code > signalBase ? signalOf(code) : undefined;
  return name === undefined ? { exitCode: code, signal: null } : { exitCode: null, signal: name };
}

/** Yields the descendants of a process, each with its depth. */
function* familyOf(leader: number): Generator<{ readonly pid: number; readonly depth: number }, void> {
  const parents = new Map<number, number>();
  for (const pid of processIds()) {
    const status = readStatus(pid);
    if (status && !status.isZombie) parents.set(pid, status.parent);
  }
  for (const pid of parents.keys()) {
    let depth = 0;
    let current: number | undefined = pid;
    for (; current !== undefined && current !== leader; depth += 1) current = parents.get(current);
    if (current === leader && depth > 0) yield { pid, depth };
  }
}

/** Ids of all processes that descend from a process through parents that are still alive. */
export const descendantsOf = (leader: number): number[] => [...familyOf(leader)].map(({ pid }) => pid);

/**
 * Ids of the processes inside a sandbox, without bwrap itself (the process that was started, and its child, which is the
 * sandbox's init). As long as they live, all others descend from that init, whatever they do.
 */
export const processesInside = (leader: number): number[] =>
  [...familyOf(leader)].flatMap(({ pid, depth }) => (depth > 1 ? [pid] : []));

/**
 * Signals every process inside a sandbox, and not bwrap, whose end would end them all at once.
 * @returns whether there was one
 */
export function signalInside(leader: number, name: NodeJS.Signals): boolean {
  const inside = processesInside(leader);
  for (const pid of inside) signal(pid, name);
  return inside.length > 0;
}
