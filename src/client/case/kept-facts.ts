import * as z from 'zod/mini';
import { orElse } from '../../files/index.js';
import type { OriginalNames } from '../outgoing.js';
import { forgetSentJob, keepSentJob, readSentJob } from '../sent-jobs.js';
import { type SentCase, sentCase } from './record.js';

/** Maximum size of a file about a job, in bytes: enough for a case with 100,000 slices. */
const maxBytes = 64 << 20;

const keptCase = z.object({ server: z.string(), sent: sentCase });
const keptNames = z.object({ server: z.string(), originals: z.record(z.string(), z.string()) });

/** Reads what a file says about a job of this server; null if it is about another server, or cannot be read. */
function ofServer<Kept extends { server: string }>(
  schema: z.ZodMiniType<Kept>,
  read: () => unknown,
  server: string,
): Kept | null {
  const kept = orElse(() => schema.parse(read()), null);
  return kept?.server === server ? kept : null;
}

/**
 * Saves what the record of a job will say about its case, for a command that fetches the result later. Never throws: without it,
 * that result has no record.
 */
export const keepSentCase = (configDir: string, jobId: string, server: string, sent: SentCase): void =>
  keepSentJob(configDir, jobId, 'inputs', { server, sent });

/** Reads the saved case; null if none was saved for this job of this server, or it cannot be read. */
export const readSentCase = (configDir: string, jobId: string, server: string): SentCase | null =>
  ofServer(keptCase, () => readSentJob(configDir, jobId, 'inputs', maxBytes), server)?.sent ?? null;

/** Deletes the saved case once the record of the result is written. Never throws. */
export const forgetSentCase = (configDir: string, jobId: string): void =>
  forgetSentJob(configDir, jobId, 'inputs');

/** Saves the original names of a job's files. Never throws: without them, the log and the result keep the neutral names. */
export const keepNames = (configDir: string, jobId: string, server: string, originals: OriginalNames): void =>
  keepSentJob(configDir, jobId, 'names', { server, originals });

/** Reads the original names; empty if none were saved for this job of this server, or they cannot be read. */
export const readNames = (configDir: string, jobId: string, server: string): OriginalNames =>
  ofServer(keptNames, () => readSentJob(configDir, jobId, 'names', maxBytes), server)?.originals ?? {};
