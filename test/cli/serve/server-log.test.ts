import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  fstatSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { LogSettings } from '../../../src/cli/serve/flags.js';
import { DirectOutput, leadsToJournal, ServerLog } from '../../../src/cli/serve/server-log.js';
import { until } from '../../support/until.mjs';

const { O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY } = constants;

function scratch(): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'remote-app-test-'));
  onTestFinished(() => rmSync(directory, { recursive: true }));
  return directory;
}

function open(file: string, flags: number | string): number {
  const descriptor = openSync(file, flags, 0o600);
  onTestFinished(() => closeSync(descriptor));
  return descriptor;
}

/** A named pipe: a blocking writing end, like one that a process inherits, and a function that reads everything in it. */
function pipe() {
  const file = path.join(scratch(), 'pipe');
  execFileSync('mkfifo', [file]);
  const reader = open(file, O_RDONLY | O_NONBLOCK);
  const writer = open(file, O_WRONLY);
  return { file, writer, read: () => drain(reader) };
}

function drain(descriptor: number): string {
  const buffer = Buffer.alloc(1 << 20);
  let text = '';
  try {
    for (;;) {
      const length = readSync(descriptor, buffer);
      if (length === 0) return text;
      text += buffer.toString('latin1', 0, length);
    }
  } catch {
    return text;
  }
}

/** Fills a pipe to its last byte. */
function fill(file: string): void {
  const writer = openSync(file, O_RDWR | O_NONBLOCK);
  try {
    for (;;) writeSync(writer, 'x');
  } catch {
    closeSync(writer);
  }
}

describe('output that never blocks or throws', () => {
  test('Output that never blocks or throws reaches a file and a pipe', () => {
    const file = path.join(scratch(), 'log');
    const output = new DirectOutput(open(file, 'a'));
    expect([output.write('one\n'), output.write('two\n')]).toEqual([true, true]);
    expect(readFileSync(file, 'utf8')).toBe('one\ntwo\n');
    const { writer, read } = pipe();
    expect(new DirectOutput(writer).write('three\n')).toBe(true);
    expect(read()).toBe('three\n');
  });

  test('Output that never blocks or throws is rejected by a full disk, at every write', () => {
    const output = new DirectOutput(open('/dev/full', 'w'));
    expect([output.write('one\n'), output.write('two\n')]).toEqual([false, false]);
  });

  test('Output that never blocks or throws does not wait for a pipe without a reader, and continues once there is one', () => {
    const { file, writer, read } = pipe();
    fill(file);
    const output = new DirectOutput(writer);
    expect(output.write('lost\n')).toBe(false);
    expect(read()).toMatch(/^x+$/);
    expect(output.write('here\n')).toBe(true);
    expect(read()).toBe('here\n');
  });

  test('Output that never blocks or throws begins a new line after a line that was cut', () => {
    const { writer, read } = pipe();
    const output = new DirectOutput(writer);
    expect(output.write(`${'y'.repeat(1 << 20)}\n`)).toBe(false);
    expect(read()).toMatch(/^y+$/);
    expect(output.write('whole\n')).toBe(true);
    expect(read()).toBe('\nwhole\n');
  });

  test('Output that never blocks or throws is lost without a reader, and reaches the next reader', () => {
    const file = path.join(scratch(), 'pipe');
    execFileSync('mkfifo', [file]);
    const first = openSync(file, O_RDONLY | O_NONBLOCK);
    const output = new DirectOutput(open(file, O_WRONLY));
    closeSync(first);
    expect([output.write('nobody\n'), output.write('nobody\n')]).toEqual([false, false]);
    const second = open(file, O_RDONLY | O_NONBLOCK);
    expect(output.write('somebody\n')).toBe(true);
    expect(drain(second)).toBe('somebody\n');
  });
});

describe("the server's log", () => {
  test("The server's log says how many lines were lost, as soon as it can", async () => {
    const { file, writer, read } = pipe();
    const log = new ServerLog(new DirectOutput(writer));
    fill(file);
    for (const line of ['one', 'two', 'three']) log.say(line);
    expect(read()).toMatch(/^x+$/);
    // Also if no other line follows.
    expect(await until('it says so', read)).toBe('(3 lines could not be written here)\n');
    log.say('four');
    expect(read()).toBe('four\n');
    fill(file);
    log.say('five');
    read();
    log.say('six');
    expect(read()).toBe('(1 line could not be written here)\nsix\n');
  });

  test("The server's log indents text from outside so that none of its lines looks like a line of the log", () => {
    const { writer, read } = pipe();
    const log = new ServerLog(new DirectOutput(writer));
    log.say('name: a\n2026-01-01T00:00:00.000Z forged\x1b]0;title\x07');
    expect(read()).toBe('name: a\\x0a2026-01-01T00:00:00.000Z forged\\x1b]0;title\\x07\n');
    log.report('GET /\u2028x failed', new Error('b\n2026-01-01T00:00:00.000Z forged\rtoo'));
    const [head, second, third] = read().split('\n');
    expect(head).toMatch(/^\d{4}-\S+Z GET \/\\u2028x failed: Error: b$/);
    expect(second).toBe('    2026-01-01T00:00:00.000Z forged\\x0dtoo');
    expect(third).toMatch(/^ {8}at /);
  });
});

describe('the systemd journal', () => {
  const written = (settings: LogSettings, journal: (place: string) => string) => {
    const file = path.join(scratch(), 'log');
    const descriptor = open(file, 'a');
    const { dev, ino } = fstatSync(descriptor);
    const isJournal = leadsToJournal(descriptor, journal(`${dev}:${ino}`));
    const log = new ServerLog(new DirectOutput(descriptor), settings, isJournal);
    log.say('one');
    log.warn('two');
    log.note('debug', 'three');
    log.report('four', new Error('five'));
    return readFileSync(file, 'utf8').trimEnd().split('\n');
  };

  test('Each line in the journal has its level, and no timestamp of its own', () => {
    const lines = written({ format: 'text', level: 'debug' }, (place) => place);
    expect(lines.slice(0, 4)).toEqual(['<6>one', '<4>WARNING: two', '<7>three', '<3>four: Error: five']);
    expect(lines.slice(4).every((line) => line.startsWith('<3>    '))).toBe(true);
  });

  test('A JSON line in the journal follows its level prefix', () => {
    const lines = written({ format: 'json', level: 'warn' }, (place) => place);
    expect(lines.map((line) => line.slice(0, 3))).toEqual(['<4>', '<3>']);
    expect(JSON.parse(lines[0]?.slice(3) ?? '')).toMatchObject({ level: 'warn', message: 'two' });
  });

  test('Level prefixes are written only in the journal', () => {
    expect(written({ format: 'text', level: 'error' }, () => '1:1')[0]).toMatch(
      /^\d{4}-.* four: Error: five$/,
    );
  });
});
