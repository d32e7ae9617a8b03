import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { crc32, deflateRawSync, inflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { DeflatedPieces } from '../../src/pack/deflated-pieces.js';
import { packDirectory } from '../../src/pack/pack.js';
import { temporary } from '../support/temporary.js';

/** Sixteen-bit noise of a few bits, as a volume has it: it shrinks to about half. */
function volume(bytes: number): Buffer {
  const content = Buffer.alloc(bytes);
  let state = 1;
  for (let at = 0; at + 1 < bytes; at += 2) {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
    content.writeUInt16LE((state >>> 16) & 0xff, at);
  }
  return content;
}

async function* piecesOf(content: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < content.length; at += size) yield content.subarray(at, at + size);
}

async function bytesOf(pieces: AsyncIterable<Buffer>): Promise<Buffer> {
  const all: Buffer[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

describe('a file that is deflated in pieces', () => {
  test.each([
    ['no bytes', 0, 1000],
    ['one piece', 1000, 1000],
    ['pieces that are shorter than the window', 100_001, 1000],
    ['many pieces, the last one of a byte', 5_000_001, 1_000_000],
  ])('inflates to its bytes: %s', async (_, bytes, size) => {
    const content = volume(bytes);
    const pieces = new DeflatedPieces(piecesOf(content, size));
    const deflated = await bytesOf(pieces);
    expect(inflateRawSync(deflated).equals(content)).toBe(true);
    expect([pieces.size, pieces.crc]).toEqual([bytes, crc32(content)]);
  });

  test('is hardly longer than one stream: a piece refers to the one before', async () => {
    const line = volume(20_000);
    const content = Buffer.concat(Array.from({ length: 200 }, () => line));
    const deflated = await bytesOf(new DeflatedPieces(piecesOf(content, line.length)));
    expect(deflated.length).toBeLessThan(1.1 * deflateRawSync(content, { level: 1 }).length);
  });

  test('ends with the error of its source, and when nobody reads on', async () => {
    async function* broken() {
      yield volume(1000);
      throw new Error('The disk is gone');
    }
    await expect(bytesOf(new DeflatedPieces(broken()))).rejects.toThrow('The disk is gone');
    let isClosed = false;
    async function* endless() {
      try {
        for (;;) yield volume(1000);
      } finally {
        isClosed = true;
      }
    }
    for await (const _ of new DeflatedPieces(endless())) break;
    expect(isClosed).toBe(true);
  });

  test('is a member of an archive that Info-ZIP reads, beside stored and small ones', async () => {
    await using root = await temporary();
    const source = path.join(root.path, 'Output');
    mkdirSync(source);
    const files = {
      'a.raw': volume(7_000_001),
      'b.raw': volume(300),
      'c.raw': volume(3_000_000),
      'd.gz': volume(200_000),
    };
    for (const [name, content] of Object.entries(files)) writeFileSync(path.join(source, name), content);
    const archive = path.join(root.path, 'result.zip');
    await packDirectory(source, archive);
    expect(execFileSync('unzip', ['-t', archive]).toString()).toContain('No errors detected');
    const copy = path.join(root.path, 'copy');
    execFileSync('unzip', ['-q', archive, '-d', copy]);
    for (const [name, content] of Object.entries(files)) {
      expect(readFileSync(path.join(copy, name)).equals(content), name).toBe(true);
    }
    const whole = Object.values(files).reduce((sum, { length }) => sum + length, 0);
    expect(readFileSync(archive).length).toBeLessThan(0.7 * whole);
  });
});
