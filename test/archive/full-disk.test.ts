import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { extractArchive } from '../../src/archive/extract.js';
import { smallDisk } from '../support/small-disk.js';
import { zipOf } from '../support/zip.mjs';

const disk = smallDisk(4, 16);

// Not every machine allows mounting.
test.skipIf(disk === null)(
  'Extracting an archive to a disk without free inodes fails for that reason',
  async () => {
    const root = disk ?? '';
    const archive = path.join(root, 'a.zip');
    writeFileSync(archive, zipOf({ a: 'A' }));
    const fill = () => {
      for (let number = 0; ; number += 1) writeFileSync(path.join(root, String(number)), '');
    };
    expect(fill).toThrow('ENOSPC');
    const extracting = extractArchive(archive, path.join(root, 'out'), { maxBytes: 1e6, maxEntries: 10 });
    await expect(extracting).rejects.toMatchObject({ code: 'ENOSPC' });
  },
);
