import { readFileSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { LogFile } from '../../src/runner/log.js';
import { temporary } from '../support/temporary.js';

const numbered = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, index) => `line ${String(from + index).padStart(6, '0')}`);

describe('a log', () => {
  test('A log is continued at its end', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'log');
    writeFileSync(file, 'of the service\n');
    const log = new LogFile(file, 1000);
    log.append(['a', '', 'b']);
    log.append([]);
    log.close();
    expect(readFileSync(file, 'utf8')).toBe('of the service\na\n\nb\n');
    expect(statSync(file).mode & 0o100).toBe(0);
  });

  test('A log keeps a bounded number of empty lines past its limit', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'log');
    const log = new LogFile(file, 10);
    for (let count = 0; count < 300; count += 1) log.append(Array.from({ length: 1000 }, () => ''));
    log.close();
    const text = readFileSync(file, 'utf8');
    expect(text.length).toBeLessThan(70_000);
    expect(text).toMatch(
      /^\n{0,10}\[remote-app\] Log limit of 10 bytes reached: \d+ lines left out here\n\n+$/,
    );
  });

  test('A log keeps whole lines up to its limit, then the last ones, with a note on how many are missing', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'log');
    const log = new LogFile(file, 100_000);
    const all = numbered(1, 100_000);
    for (let start = 0; start < all.length; start += 100) log.append(all.slice(start, start + 100));
    log.close();
    const lines = readFileSync(file, 'utf8').split('\n').slice(0, -1);
    const at = lines.findIndex((line) => line.startsWith('[remote-app] '));
    const [head, tail] = [lines.slice(0, at), lines.slice(at + 1)];
    expect(head).toEqual(all.slice(0, head.length));
    expect(head.join('\n').length).toBeLessThanOrEqual(100_000);
    expect(head.join('\n').length).toBeGreaterThan(98_000);
    expect(tail).toEqual(all.slice(-tail.length));
    expect(tail.join('\n').length).toBeGreaterThan(60_000);
    expect(tail.join('\n').length).toBeLessThan(80_000);
    const missing = Number(/(\d+) lines left out/.exec(lines[at] ?? '')?.[1]);
    expect(head.length + missing + tail.length).toBe(all.length);
  });

  test('A log reserves lines beyond its limit for the end, even a short one that would fit', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'log');
    const log = new LogFile(file, 20);
    log.append(['0123456789']);
    log.append(['far too long for it']);
    log.append(['x']);
    log.close();
    expect(readFileSync(file, 'utf8')).toBe(
      '0123456789\n[remote-app] Log limit of 20 bytes reached: 0 lines left out here\nfar too long for it\nx\n',
    );
  });
});
