import * as z from 'zod/mini';
import type { AppAnswer } from '../connection/index.js';
import type { OriginalNames } from '../outgoing.js';
import { forgetSentJob, keepSentJob, readSentJob } from '../sent-jobs.js';
import type { RecordFacts } from './complete-result.js';
import { recordedInput } from './record.js';

/** What is known of a job when it is sent. */
export type InputFacts = Omit<RecordFacts, 'job' | 'jobId' | 'log'>;

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
    deidentified: z.nullable(z.object({ mode: z.enum(['full', 'names']), allowed: z.array(text) })),
  }),
  app: z.nullable(z.custom<AppAnswer>((value) => typeof value === 'object')),
  server: z.object({ address: text, version: textOrNull, devices: z.array(z.tuple([z.number(), text])) }),
  clientVersion: text,
  inputs: z.array(recordedInput),
  remarks: z.array(text),
});

/**
 * Keeps what the record of a job will say of its inputs, for a command that fetches the result later. Never throws: without it,
 * that result has no record.
 */
export function keepFacts(configDir: string, jobId: string, facts: InputFacts): void {
  const server = { ...facts.server, devices: [...facts.server.devices] };
  keepSentJob(configDir, jobId, 'inputs', { ...facts, server });
}

/** Forgets what was kept of a job whose result has its record. Never throws. */
export const forgetFacts = (configDir: string, jobId: string): void =>
  forgetSentJob(configDir, jobId, 'inputs');

const names = z.object({ server: text, originals: z.record(text, text) });

/**
 * Keeps the names that a person knows of the files of a job of a server. Never throws: without them, its log and its result have
 * neutral ones.
 */
export const keepNames = (configDir: string, jobId: string, server: string, originals: OriginalNames): void =>
  keepSentJob(configDir, jobId, 'names', { server, originals });

/** Those names; none where nothing was kept of this job of this server, or it cannot be read. */
export function readNames(configDir: string, jobId: string, server: string): OriginalNames {
  try {
    const kept = names.parse(readSentJob(configDir, jobId, 'names', maxBytes));
    return kept.server === server ? kept.originals : {};
  } catch {
    return {};
  }
}

/** What was kept of a job of this server; null if there is nothing that can be read. */
export function readFacts(configDir: string, jobId: string, server: string): InputFacts | null {
  try {
    const facts = schema.parse(readSentJob(configDir, jobId, 'inputs', maxBytes));
    if (facts.server.address !== server) return null;
    return { ...facts, server: { ...facts.server, devices: new Map(facts.server.devices) } };
  } catch {
    return null;
  }
}
