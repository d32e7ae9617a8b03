import { readdirSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import * as z from 'zod/mini';
import { makeDirectory, readSmallFile, writeJsonFile } from '../../files/index.js';
import { type AppAnswer, pathJobId } from '../connection/index.js';
import { recordedInput } from './record.js';
import type { InputFacts } from './recorder.js';

/** How many jobs' facts are kept: those of the newest. */
const mostKept = 200;

/** Largest file of facts, in bytes: of a case with 100,000 slices. */
const maxBytes = 64 << 20;

const text = z.string();
const textOrNull = z.nullable(text);

/** The file, which this program has written. */
const schema = z.object({
  computation: z.object({
    operation: text,
    app: text,
    version: textOrNull,
    checkpoints: z.array(text),
    settings: z.record(text, z.custom<InputFacts['computation']['settings'][string]>()),
  }),
  app: z.nullable(z.custom<AppAnswer>((value) => typeof value === 'object')),
  server: z.object({ address: text, version: textOrNull, devices: z.array(z.tuple([z.number(), text])) }),
  clientVersion: text,
  inputs: z.array(recordedInput),
});

const directoryIn = (configDir: string): string => path.join(configDir, 'sent');
const fileOf = (configDir: string, jobId: string): string =>
  path.join(directoryIn(configDir), `${jobId}.json`);

/** Removes the oldest. */
function prune(directory: string): void {
  const names = readdirSync(directory);
  if (names.length <= mostKept) return;
  const byAge = names
    .map((name) => ({ name, time: statSync(path.join(directory, name)).mtimeMs }))
    .sort((a, b) => a.time - b.time);
  for (const { name } of byAge.slice(0, -mostKept)) rmSync(path.join(directory, name), { force: true });
}

/**
 * Keeps what the record of a job will say of its inputs, readable by its owner alone, for a command that fetches the result later.
 * Never throws: without it, that result has no record.
 */
export function keepFacts(configDir: string, jobId: string, facts: InputFacts): void {
  try {
    if (!pathJobId.test(jobId)) return;
    const directory = directoryIn(configDir);
    makeDirectory(directory, 0o700);
    const server = { ...facts.server, devices: [...facts.server.devices] };
    writeJsonFile(fileOf(configDir, jobId), { ...facts, server }, { isKept: false });
    prune(directory);
  } catch {
    // An unwritable home directory must not make a submission fail.
  }
}

/** Forgets what was kept of a job whose result has its record. Never throws. */
export function forgetFacts(configDir: string, jobId: string): void {
  try {
    if (pathJobId.test(jobId)) rmSync(fileOf(configDir, jobId), { force: true });
  } catch {
    // It is removed when there are too many.
  }
}

/** What was kept of a job of this server; null if there is nothing that can be read. */
export function readFacts(configDir: string, jobId: string, server: string): InputFacts | null {
  try {
    const facts = schema.parse(JSON.parse(readSmallFile(fileOf(configDir, jobId), maxBytes)));
    if (facts.server.address !== server) return null;
    return { ...facts, server: { ...facts.server, devices: new Map(facts.server.devices) } };
  } catch {
    return null;
  }
}
