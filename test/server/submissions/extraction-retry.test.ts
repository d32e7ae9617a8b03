import { rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { fieldWithRole, operationOf } from '../../../src/contract/index.js';
import { Turns } from '../../../src/files/index.js';
import { placeFiles } from '../../../src/server/submissions/index.js';
import { DiskSpace } from '../../../src/server/uploads/index.js';
import { smallDisk } from '../../support/small-disk.js';
import { plant } from '../../support/temporary.js';
import { zipOf } from '../../support/zip.mjs';

const root = smallDisk(8) ?? '';

// Not every machine allows mounting.
test.skipIf(root === '')(
  'A second try to extract an archive first removes what the first one left',
  async () => {
    const large = Buffer.alloc(5.5 * 2 ** 20);
    const input = path.join(root, 'Input');
    const extracted = path.join(input, 'inputs/g0/s/a');
    await plant(root, { filler: large, archive: zipOf({ a: 'x'.repeat(1 << 20) }) });
    const makeRoom = async () => {
      rmSync(path.join(root, 'filler'));
      await plant(input, { 'inputs/g0/s/a': large });
      return true;
    };
    const inputs = fieldWithRole(operationOf('infer'), 'paths');
    const archive = { field: 'inputs', name: 's.konfaidir.zip', path: path.join(root, 'archive') };
    await placeFiles(new Map([[inputs, [[archive]]]]), input, {
      limits: { maxFileSize: 1 << 30, maxUploadSize: 1 << 30, maxExtractedSize: 1 << 30, advice: '' },
      space: new DiskSpace(root, makeRoom).reservationFor('ana'),
      largeArchives: new Turns(1),
      onExtract: () => {},
    });
    expect(statSync(extracted).size).toBe(1 << 20);
  },
);
