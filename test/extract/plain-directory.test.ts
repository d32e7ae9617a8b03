import unzipper from 'unzipper';
import { describe, expect, test } from 'vitest';
import { plainEntries } from '../../src/extract/plain-directory.js';
import { TimeSlice } from '../../src/files/time-slice.js';
import { zip } from '../../support/zip.mjs';

const a = { name: 'a.nii', content: 'volume' };

/** The directory of an archive. */
function directoryOf(archive: Buffer): Buffer {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  const start = archive.readUInt32LE(end + 16);
  return archive.subarray(start, start + archive.readUInt32LE(end + 12));
}

const read = (archive: Buffer) => plainEntries(directoryOf(archive), 100, new TimeSlice());

describe('the directory of a plain archive', () => {
  test.for([
    ['nothing', zip([])],
    ['a file', zip([a])],
    ['directories and packed files', zip([{ name: 'case/' }, { ...a, deflated: true, mode: 0o100644 }])],
    ['a name that is not UTF-8', zip([{ name: 'caf?' }]).fill(0xe9, 33, 34)],
    ['a name of 60,000 bytes', zip([{ name: 'x'.repeat(60_000) }, a])],
  ] as const)('is read as unzipper reads it: %s', async ([, archive]) => {
    const bytes = Buffer.from(archive);
    const { files } = await unzipper.Open.buffer(bytes);
    const plain = await read(bytes);
    expect(plain).toHaveLength(files.length);
    for (const [index, entry] of (plain ?? []).entries()) expect(files[index]).toMatchObject(entry);
  });

  test.for([
    ['ends within a header', (bytes: Buffer) => bytes.subarray(0, bytes.length - 10)],
    ['ends within a name', (bytes: Buffer) => bytes.subarray(0, bytes.length - 1)],
    ['has something else between its entries', (bytes: Buffer) => bytes.fill(0, 0, 1)],
    ['states a size elsewhere', (bytes: Buffer) => bytes.fill(0xff, 20, 24)],
    ['states a place elsewhere', (bytes: Buffer) => bytes.fill(0xff, 42, 46)],
  ] as const)('is left to unzipper if it %s', async ([, change]) => {
    const directory = directoryOf(zip([a, { ...a, name: 'b.nii' }]));
    expect(await plainEntries(change(Buffer.from(directory)), 100, new TimeSlice())).toBeNull();
  });
});
