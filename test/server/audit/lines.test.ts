import { chmodSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { AuditLog, lookAtAuditLog, openAuditLog } from '../../../src/server/audit/audit-log.js';
import { ServerEvents } from '../../../src/server/events.js';
import { openBelow } from '../../support/open-files.js';
import { temporary } from '../../support/temporary.js';

let directory: Awaited<ReturnType<typeof temporary>>;
let file = '';
beforeEach(async () => {
  directory = await temporary();
  file = path.join(directory.path, 'audit.log');
});
afterEach(() => directory[Symbol.asyncDispose]());

/** The lines of a log, without their times. */
const linesOf = (name = file) =>
  readFileSync(name, 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => {
      const { time, ...facts } = JSON.parse(line) as Record<string, unknown>;
      expect(Date.now() - Date.parse(String(time))).toBeLessThan(60_000);
      return facts;
    });

test('A reopened log leaves one descriptor open; if reopening fails, the old file is still used', () => {
  const told: string[] = [];
  const log = new AuditLog(file, (problem) => told.push(problem));
  renameSync(file, `${file}.1`);
  log.reopen();
  expect(openBelow(directory.path)).toEqual(['audit.log']);
  log.write({ event: 'drain', draining: true });
  renameSync(file, `${file}.2`);
  mkdirSync(file);
  log.reopen();
  log.write({ event: 'drain', draining: false });
  log.close();
  log.reopen();
  log.write({ event: 'drain', draining: true });
  expect(linesOf(`${file}.2`)).toEqual([
    { event: 'drain', draining: true },
    { event: 'drain', draining: false },
  ]);
  expect(told).toEqual(['The audit log could not be reopened; lines still go to the old file']);
  expect(openBelow(directory.path)).toEqual([]);
});

test('Checking the log creates no file, follows a link to its target, and leaves nothing open', () => {
  const problem = (why: string) => {
    const message = expect.stringContaining(`The audit log '${file}' cannot be written: ${why}`);
    return expect.objectContaining({ message, cause: expect.any(Error) });
  };
  lookAtAuditLog(file);
  expect(existsSync(file)).toBe(false);
  symlinkSync('logs/audit.log', file);
  expect(() => lookAtAuditLog(file)).toThrow(problem('no such file or directory'));
  mkdirSync(path.join(directory.path, 'logs'));
  lookAtAuditLog(file);
  expect(existsSync(file)).toBe(false);
  rmSync(file);
  mkdirSync(file);
  const directoryFault = problem('illegal operation on a directory (EISDIR)');
  expect(() => lookAtAuditLog(file)).toThrow(directoryFault);
  expect(() => openAuditLog(file, new ServerEvents(expect.fail), expect.fail)).toThrow(directoryFault);
  rmSync(file, { recursive: true });
  new AuditLog(file, expect.fail).close();
  chmodSync(file, 0o600);
  lookAtAuditLog(file);
  expect(openBelow(directory.path)).toEqual([]);
  expect(openAuditLog(null, new ServerEvents(expect.fail), expect.fail)).toBeNull();
});
