import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const directory = (name) => ({
  name,
  make: (at, random) => {
    mkdirSync(path.join(at, 'deep'), { recursive: true });
    writeFileSync(path.join(at, 'deep', 'chapter-1'), `of somebody: ${random.word(30)}`);
  },
});

/** Things under the data directory that no server made; `where` is below it. */
export const foreign = [
  { where: 'jobs', ...directory('thesis') },
  { where: 'jobs', ...directory('lost+found') },
  { where: 'jobs', ...directory('0123456789ab') },
  { where: 'jobs', ...directory('0123456789ABC') },
  { where: 'jobs', name: 'notes.txt', make: (at, random) => writeFileSync(at, random.word(40)) },
  { where: 'jobs', name: 'fedcba987654', make: (at, random) => writeFileSync(at, random.word(40)) },
  { where: 'jobs', name: 'elsewhere', make: (at, _random, outside) => symlinkSync(outside, at) },
  { where: 'jobs', name: 'abcdefabcdef', make: (at, _random, outside) => symlinkSync(outside, at) },
  { where: '.', ...directory('mine') },
  { where: '.', name: 'backup.tar', make: (at, random) => writeFileSync(at, random.word(40)) },
];
