import * as z from 'zod/mini';
import { orElse } from '../../files/index.js';
import type { OriginalNames } from '../outgoing.js';
import { forgetSentJob, keepSentJob, readSentJob } from '../sent-jobs.js';
import { type SentCase, sentCase } from './record.js';

/** Largest file about a job, in bytes: of a case with 100,000 slices. */
const maxBytes = 64 << 20;

const keptCase = z.object({ server: z.string(), sent: sentCase });
const keptNames = z.object({ server: z.string(), originals: z.record(z.string(), z.string()) });

/** What a file says of a job of this server; null if there is nothing that can be read. */
function ofServer<Kept extends { server: string }>(
  schema: z.ZodMiniType<Kept>,
  read: () => unknown,
  server: string,
): Kept | null {
  const kept = orElse(() => schema.parse(read()), null);
  return kept?.server === server ? kept : null;
}

/**
 * Keeps what the record of a job of a server will say of its case, for a command that fetches the result later. Never throws:
 * without it, that result has no record.
 */
export const keepSentCase = (configDir: string, jobId: string, server: string, sent: SentCase): void =>
  keepSentJob(configDir, jobId, 'inputs', { server, sent });

/** That case; null where nothing was kept of this job of this server, or it cannot be read. */
export const readSentCase = (configDir: string, jobId: string, server: string): SentCase | null =>
  ofServer(keptCase, () => readSentJob(configDir, jobId, 'inputs', maxBytes), server)?.sent ?? null;

/** Forgets what was kept of a job whose result has its record. Never throws. */
export const forgetSentCase = (configDir: string, jobId: string): void =>
  forgetSentJob(configDir, jobId, 'inputs');

/**
 * Keeps the names that a person knows of the files of a job of a server. Never throws: without them, its log and its result have
 * neutral ones.
 */
export const keepNames = (configDir: string, jobId: string, server: string, originals: OriginalNames): void =>
  keepSentJob(configDir, jobId, 'names', { server, originals });

/** Those names; none where nothing was kept of this job of this server, or it cannot be read. */
export const readNames = (configDir: string, jobId: string, server: string): OriginalNames =>
  ofServer(keptNames, () => readSentJob(configDir, jobId, 'names', maxBytes), server)?.originals ?? {};
