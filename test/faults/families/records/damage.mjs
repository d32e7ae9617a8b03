import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { giveAway } from '../../support/unprivileged.mjs';

const put = (content) => (file) => writeFileSync(file, content);

/** Replaces a file by something that the owner of its directory could have made. */
function replace(file, make) {
  rmSync(file);
  make();
  execFileSync('chown', ['--no-dereference', '--reference', path.dirname(file), file], { stdio: 'ignore' });
}

/**
 * What may have become of a file of JSON. Each gets the file, the source of chance, and a path outside of the data
 * directory that is free.
 */
export const damages = {
  'of 0 bytes': put(''),
  'cut short': (file, random) => truncateSync(file, random.integer(1, readFileSync(file).length - 3)),
  // Only the high bit, so that no digit of a date becomes another digit, which would be a valid record.
  'with flipped bits': (file, random) => {
    const bytes = readFileSync(file);
    for (let more = random.integer(1, 8); more > 0; more -= 1)
      bytes[random.integer(0, bytes.length - 1)] ^= 0x80;
    writeFileSync(file, bytes);
  },
  'of random bytes': (file, random) => writeFileSync(file, random.bytes(random.integer(1, 900))),
  'filled with zeros': (file) => writeFileSync(file, Buffer.alloc(readFileSync(file).length)),
  'that is {}': put('{}'),
  'that is []': put('[]'),
  'that is null': put('null'),
  'that is a number': put('7'),
  'of version 999': (file) =>
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), version: 999 })),
  // Only in the record of a job; other files stay as they are.
  'that asks to be kept for longer than there are dates': (file, random) => {
    const record = JSON.parse(readFileSync(file, 'utf8'));
    if (record.request !== undefined) record.request.keep = 10 ** random.integer(13, 300);
    writeFileSync(file, JSON.stringify(record));
  },
  'that is missing': (file) => rmSync(file),
  'that is a directory': (file) => replace(file, () => mkdirSync(file)),
  'that is a link to a copy': (file, _random, outside) => {
    copyFileSync(file, outside);
    giveAway(outside);
    replace(file, () => symlinkSync(outside, file));
  },
  'that is a link to nothing': (file, _random, outside) => replace(file, () => symlinkSync(outside, file)),
  'that is a FIFO': (file) => replace(file, () => execFileSync('mkfifo', [file])),
  'that may not be read': (file) => chmodSync(file, 0),
};

/** Damages to the list of expired jobs. */
export const expiredDamages = {
  torn: (file, random) => truncateSync(file, random.integer(1, readFileSync(file).length - 1)),
  garbage: (file, random) => writeFileSync(file, random.bytes(3000)),
  'of 32 MiB': (file) => writeFileSync(file, Buffer.alloc(32 * 2 ** 20, 'a long line without an end ')),
  'a directory': (file) => replace(file, () => mkdirSync(file)),
};

/** A record without a version, as earlier servers wrote it, and otherwise unchanged. */
export function makeOld(file) {
  const { version: _version, ...record } = JSON.parse(readFileSync(file, 'utf8'));
  writeFileSync(file, JSON.stringify(record));
}
