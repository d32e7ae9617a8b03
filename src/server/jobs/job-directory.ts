import { closeSync, constants, mkdirSync } from 'node:fs';
import path from 'node:path';
import { excerpt, oneLine, redrawEnd, resultName, servicePrefix } from '../../contract/index.js';
import {
  appendLines,
  dropReserve,
  isDiskFull,
  isGone,
  jsonText,
  openOwnFile,
  orElse,
  readOwnFile,
  readReserve,
  reserveJsonFile,
  saveJsonFile,
  syncFile,
  tailOf,
  writeReservedJson,
  writeTextFile,
} from '../../files/index.js';
import { type JobFiles, type JobRecord, parseFiles, parseRecord } from './job-record.js';

/** Bytes at the end of a log that are searched. */
const tailBytes = 16 * 1024;
/** Lines at the end of an app's output that are searched for why it failed: an error and its traceback. */
const searchedLines = 50;
/** Maximum size in bytes of `files.json`, which may name up to 100,000 files, and of `job.json`. */
const maxRecordBytes = 256 << 20;
/** Bytes by which a record may grow between its first and its last state: times, devices, an error message. */
const recordGrowth = 8192;

/**
 * The end of the log line that announces the second run of a job that ran out of memory. The start of that run's output is found
 * by it, because nothing else in the log separates the two.
 */
export const retryWords = 'it runs once more, without sharing its GPUs or the memory that apps declare';

/** Formats a line of the service for the log. */
export const loggedLine = (line: string, isRedraw: boolean): string =>
  `${servicePrefix}${oneLine(line)}${isRedraw ? redrawEnd : ''}`;

/**
 * The directory of one job, which holds everything about it: it can be read with `ls` and `cat`, and removed with one
 * `rm -r`. The job can write to it as well, so nothing in it is opened through a link.
 */
export class JobDirectory {
  constructor(
    readonly id: string,
    readonly path: string,
  ) {}

  /** The submitted files. */
  get input(): string {
    return path.join(this.path, 'Input');
  }

  /** The app's output, which becomes the result. */
  get output(): string {
    return path.join(this.path, 'Output');
  }

  /** The command's working directory. It is not part of the result. */
  get workspace(): string {
    return path.join(this.path, 'Workspace');
  }

  get temporary(): string {
    return path.join(this.workspace, 'tmp');
  }

  /** The file in which the app says why it does not accept its input. */
  get refusal(): string {
    return path.join(this.workspace, 'refusal.txt');
  }

  get logFile(): string {
    return path.join(this.path, 'log');
  }

  get result(): string {
    return path.join(this.path, resultName);
  }

  /** False if it has certainly been removed. */
  exists(): boolean {
    return !isGone(this.path);
  }

  /** Makes the directories that a job needs. */
  makeDirectories(): void {
    for (const directory of [this.input, this.output, this.temporary]) {
      mkdirSync(directory, { recursive: true, mode: 0o700 });
    }
  }

  /** The file that makes this directory a job. */
  get recordFile(): string {
    return path.join(this.path, 'job.json');
  }

  /** The list of its files, which is written once. */
  get filesFile(): string {
    return path.join(this.path, 'files.json');
  }

  /** The files of a job that has not started. @throws Error if they cannot be read */
  loadFiles(): JobFiles {
    const text = readOwnFile(this.filesFile, maxRecordBytes);
    if (text === undefined) throw new Error('The list of its files is gone');
    return parseFiles(text);
  }

  /**
   * Writes the first record, and reserves the space that the last one may need on a full disk. Until then, that space
   * holds a copy of the first record. Neither survives a power cut before the directory is synced.
   */
  saveFirst(record: JobRecord, files: JobFiles): void {
    writeTextFile(this.filesFile, jsonText(files), { isKept: false });
    const text = jsonText(record);
    writeTextFile(this.recordFile, text, { isKept: false });
    reserveJsonFile(this.recordFile, Buffer.byteLength(text) + recordGrowth, text);
  }

  /**
   * Writes the record, which survives a power cut once this resolves. Calls must not overlap.
   * @param isKept false if a power cut may lose it: the job is then found as it was accepted. Not after `saveLast`, which
   * removes that record.
   */
  async save(record: JobRecord, isKept = true): Promise<void> {
    await saveJsonFile(this.recordFile, record, isKept);
  }

  /** Writes the record of a job that has ended, even if the disk is full. */
  async saveLast(record: JobRecord): Promise<void> {
    try {
      await this.save(record);
      dropReserve(this.recordFile);
    } catch (cause) {
      if (!isDiskFull(cause)) throw cause;
      // This overwrites the reserved space, which holds the first record, so the latest record should be on the disk before.
      await syncFile(this.recordFile).catch(() => {});
      writeReservedJson(this.recordFile, record);
    }
  }

  /**
   * @returns undefined if there is no record
   * @throws Error that says what is wrong with an invalid record; the system's error for one that cannot be read
   */
  load(): JobRecord | undefined {
    const text = readOwnFile(this.recordFile, maxRecordBytes);
    return text === undefined ? undefined : parseRecord(text, this.id);
  }

  /** The record of the job as it was accepted; undefined once its last record is written, or if it cannot be read. */
  loadFirst(): JobRecord | undefined {
    const read = () => readReserve(this.recordFile, maxRecordBytes) ?? '';
    return orElse(() => parseRecord(read(), this.id), undefined);
  }

  /** Adds a line of the service to the log. */
  log(line: string, isRedraw = false): void {
    const flags = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT;
    const file = openOwnFile(this.logFile, flags);
    try {
      appendLines(file, [loggedLine(line, isRedraw)]);
    } finally {
      closeSync(file);
    }
  }

  /** Whether the end of the log of the latest run contains this line of the service, which an earlier server may have written. */
  hasLogged(line: string, isRedraw: boolean): boolean {
    return this.#tail().includes(loggedLine(line, isRedraw));
  }

  /** The last lines that the app has written in its latest run; empty if the log cannot be read. */
  lastLines(): string {
    const lines = orElse(() => this.#tail(), []);
    return lines
      .filter((line) => !line.startsWith(servicePrefix))
      .slice(-searchedLines)
      .join('\n');
  }

  /** The lines at the end of the log; after a second run, from the line that announces it. */
  #tail(): string[] {
    const file = openOwnFile(this.logFile, constants.O_RDONLY);
    try {
      const lines = `${tailOf(file, tailBytes)}`.split('\n').slice(0, -1);
      const isRetry = (line: string) => line.startsWith(servicePrefix) && line.endsWith(retryWords);
      return lines.slice(Math.max(lines.findLastIndex(isRetry), 0));
    } finally {
      closeSync(file);
    }
  }
}

/**
 * Environment variables that every app gets. Most of them turn off telemetry of libraries: ONNX Runtime, since 1.29, reports the
 * names of models and the messages of errors.
 */
export const appVariables = {
  PYTHONUNBUFFERED: '1',
  DO_NOT_TRACK: '1',
  HF_HUB_DISABLE_TELEMETRY: '1',
  ORT_DISABLE_TELEMETRY: '1',
} as const;

/** Environment variables that tell the command its refusal file: this service's own, and the one that KonfAI's engine knows. */
export const refusalVariables = ['REMOTE_APP_REFUSAL_FILE', 'KONFAI_APPS_REFUSAL_FILE'] as const;

/** Maximum size in bytes of a refusal: a sentence, or a list of what is wrong. */
const maxRefusalBytes = 64 * 1024;

/**
 * What a failed app wrote into its refusal file: why it does not accept its input, so that a person can correct it.
 * @returns null if it refused nothing, or if the file cannot be read, such as a symbolic or hard link that the job made
 */
export function readRefusal(file: string): string | null {
  const text = orElse(() => readOwnFile(file, maxRefusalBytes, true), null);
  return excerpt(text?.trim().replaceAll(/\s+/g, ' ') ?? '') || null;
}
