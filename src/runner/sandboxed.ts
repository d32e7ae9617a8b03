import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import { processIds, readStatus } from '../files/process-status.js';
import type { RunEnd } from './protocol.js';
import { signal } from './terminate.js';

/** Characters kept of bwrap's report: two short lines. */
const maxStatus = 64 * 1024;
/** Shells, and bwrap, add a signal's number to this. */
const signalBase = 128;

/** The signal that an exit code from 129 on stands for. */
const signalOf = (code: number): string | undefined =>
  Object.entries(constants.signals).find(([, number]) => number === code - signalBase)?.[0];

/**
 * Reads from bwrap how the command ended.
 * @returns the exit code, after the end of the stream; undefined if the command was never started
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
 * How a command ended. bwrap reports a signal as an exit code from 129 on, as shells do, which pass on the end of the program that
 * they run. A command that exits with such a code counts as ended by the signal.
 */
export function endOfCode(code: number): Pick<RunEnd, 'exitCode' | 'signal'> {
  const name = code > signalBase ? signalOf(code) : undefined;
  return name === undefined ? { exitCode: code, signal: null } : { exitCode: null, signal: name };
}

/** The descendants of a process, each with its distance. */
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

/** All processes that descend from one and whose parents all live. */
export const descendantsOf = (leader: number): number[] => [...familyOf(leader)].map(({ pid }) => pid);

/**
 * The processes inside a sandbox. bwrap itself does not count: the process that was started, and its child, which is the
 * first process of the sandbox. All others descend from that one, whatever they have done, as long as they live.
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
