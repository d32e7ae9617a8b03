import { existsSync, lstatSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import * as z from 'zod/mini';
import { filesBelow, freeName, hashFile, isSafeName, jsonText, readSmallFile } from '../../files/index.js';
import { type FoundFiles, filesOfUnit } from '../found-files.js';
import { recordName } from '../output-names.js';
import { resultFormats } from '../result-formats.js';

/** Maximum size of a record, in bytes: enough for a case with 100,000 slices. */
const maxBytes = 64 << 20;

const text = z.string();
const textOrNull = z.nullable(text);

const file = z.object({
  /** Name of an input as the app gets it; path of an output in the result's directory, with slashes. */
  name: text,
  /** Bytes. */
  size: z.int().check(z.minimum(0)),
  sha256: text.check(z.regex(/^[0-9a-f]{64}$/)),
});

/** An input: a file, or one of the files of a series or a store. */
const recordedInput = z.extend(file, {
  /** `inputs`, `gt` or `mask`. */
  field: text,
  /** The group of that field, counted from 0. */
  group: z.int(),
});

const unit = z.nullable(text.check(z.maxLength(20)));

const schema = z.object({
  /** As in BIDS: the app, and the program that wrote the record. */
  GeneratedBy: z.array(
    z.object({
      Name: text,
      Version: z.optional(text),
      Description: z.optional(text),
      CodeURL: z.optional(text),
    }),
  ),
  /** A hash of everything that the result depends on; equal for equal cases. */
  key: text,
  operation: text,
  app: text,
  /** Null if the server does not report it; KonfAI's server does not. */
  app_version: textOrNull,
  checkpoints: z.array(text),
  /** Options by field: the given values, and defaults for the others. */
  options: z.record(text, z.unknown()),
  inputs: z.array(recordedInput),
  /** What the client noticed in the inputs, such as a missing slice, in sentences. */
  inputs_remarks: z.array(text),
  outputs: z.array(file),
  /** The name of its case; null for the result of a command without --each. */
  case: textOrNull,
  /**
   * How the inputs were de-identified before they were sent; null if they were sent unchanged. `inputs` describes the original
   * files on this machine.
   */
  deidentified: z.nullable(z.object({ mode: z.enum(['full', 'names']), allowed: z.array(text) })),
  /**
   * Outputs of earlier results that the user had edited, and that are kept beside this result: the current name, the original
   * name, and the key of the earlier result.
   */
  edited: z.array(z.object({ name: text, from: text, key: text })),
  /** Hashes of the file times when the files were last hashed (file-times.ts); null if the times prove nothing. */
  stamps: z.object({ inputs: textOrNull, outputs: textOrNull }),
  /** The file beside the outputs with the log of the job; null if there is none. */
  log: textOrNull,
  /** The numbers in the result, by column of `cases.csv`. */
  numbers: z.record(text, z.number()),
  /** The formats requested with --as, the outputs that were written, and what could not be converted, as sentences. */
  conversion: z.nullable(
    z.object({
      as: z.array(z.enum(resultFormats)),
      outputs: z.array(z.object({ from: text, as: z.enum(resultFormats), name: text })),
      problems: z.array(text),
    }),
  ),
  /** Which numbers could not be read, as sentences. */
  numbers_unread: z.array(text),
  /** The app's label names, by value. */
  labels: z.record(
    text,
    z.object({
      name: text.check(z.maxLength(200)),
      color: z.optional(text),
      snomed: z.optional(z.object({ code: text, meaning: text })),
      values: z.optional(z.array(z.number())),
    }),
  ),
  /** What to cite for the app, as stated when the job ran. */
  citation: z._default(z.array(z.object({ text, doi: z.optional(text), licence: z.optional(text) })), []),
  /** The app's unit for the intensities of its inputs and outputs; null if it states none, or several. */
  units: z.object({ inputs: unit, outputs: unit }),
  job_id: text,
  server: text,
  /** Null if the server does not report it; KonfAI's server does not. */
  server_version: textOrNull,
  client_version: text,
  /** Names of the GPUs, or their ids where the server does not give names; empty for a job on the CPU. */
  devices: z.array(text),
  created_at: textOrNull,
  started_at: textOrNull,
  finished_at: textOrNull,
  /** How long the job ran. */
  seconds: z.nullable(z.number()),
});

/** How a result was made; stored beside its files as `remote-app-record.json`. */
export type CaseRecord = z.infer<typeof schema>;
export type RecordedFile = z.infer<typeof file>;
export type RecordedInput = z.infer<typeof recordedInput>;
/** The outcome of converting to the requested formats. */
export type Conversion = NonNullable<CaseRecord['conversion']>;

/** The part of a record that is known before the job has ended. */
export const sentCase = z.pick(schema, {
  ...{ GeneratedBy: true, operation: true, app: true, app_version: true, checkpoints: true, options: true },
  ...{ inputs: true, inputs_remarks: true, deidentified: true, labels: true, citation: true, units: true },
  client_version: true,
});

export type SentCase = z.infer<typeof sentCase>;
/** The part that all cases of a command share. */
export type Computation = Omit<SentCase, 'inputs' | 'inputs_remarks'>;

/** Whether a name refers to a file inside the directory. */
const isInside = (name: string): boolean => name.split('/').every((part) => isSafeName(part));

/** The record in a directory of a result; null if there is none, or it cannot be read. */
export function readRecord(directory: string, name: string = recordName): CaseRecord | null {
  try {
    const parsed = schema.safeParse(JSON.parse(readSmallFile(path.join(directory, name), maxBytes)));
    if (!parsed.success) return null;
    const { outputs, edited } = parsed.data;
    const names = [...outputs.map(({ name }) => name), ...edited.flatMap(({ name, from }) => [name, from])];
    return names.every(isInside) ? parsed.data : null;
  } catch {
    return null;
  }
}

/**
 * Writes a record among the files of a result, before all of them are moved to their place at once. @throws the system's error
 */
export const writeRecord = (directory: string, record: CaseRecord, name: string = recordName): void =>
  writeFileSync(path.join(directory, name), jsonText(record));

/** The record after its outputs were renamed. @param renamed returns the new name of an output, or of a directory of several */
export const withNames = (record: CaseRecord, renamed: (name: string) => string): CaseRecord => ({
  ...record,
  outputs: record.outputs.map((each) => ({ ...each, name: renamed(each.name) })),
  conversion: record.conversion && {
    ...record.conversion,
    outputs: record.conversion.outputs.map((each) => ({
      ...each,
      from: renamed(each.from),
      name: renamed(each.name),
    })),
  },
});

/** Renames a directory of the app's that has the name of the record. @throws the system's error */
export function freeRecordName(directory: string): void {
  const target = path.join(directory, recordName);
  if (!lstatSync(target, { throwIfNoEntry: false })?.isDirectory()) return;
  const free = freeName(recordName, new Map(), (name) => existsSync(path.join(directory, name)));
  renameSync(target, path.join(directory, free));
}

/** The inputs of a submission, with hashes of their contents. @throws the system's error if a file cannot be read */
export async function hashInputs(found: FoundFiles, signal?: AbortSignal): Promise<RecordedInput[]> {
  const inputs: RecordedInput[] = [];
  for (const { field, groups } of found.volumes) {
    for (const [group, units] of groups.entries()) {
      for (const { name, path: target } of units.flatMap(filesOfUnit)) {
        inputs.push({ name, ...(await hashFile(target, signal)), field: field.name, group });
      }
    }
  }
  return inputs;
}

/** The files of a result, sorted by name, without the record and the log. */
export async function hashOutputs(
  directory: string,
  signal?: AbortSignal,
  log: string | null = null,
): Promise<RecordedFile[]> {
  const names = namesBelow(directory).filter((name) => name !== recordName && name !== log);
  const outputs: RecordedFile[] = [];
  for (const name of names) outputs.push({ name, ...(await hashFile(path.join(directory, name), signal)) });
  return outputs;
}

/** The files in a directory and below, as paths with slashes, sorted. */
export const namesBelow = (directory: string): string[] =>
  filesBelow(directory)
    .map((entry) =>
      path.relative(directory, path.join(entry.parentPath, entry.name)).split(path.sep).join('/'),
    )
    .sort();
