import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { operations } from '../../../src/contract/index.js';
import { DiskWatch } from '../../../src/server/uploads/disk-space.js';
import { FormReceiver } from '../../../src/server/uploads/form-receiver.js';
import { UploadQuota, UploadTurns } from '../../../src/server/uploads/limits.js';
import { EarlyChecks } from '../../../src/server/uploads/read-form.js';
import { SyncBehind } from '../../../src/server/uploads/uploaded-file.js';

test('the number of files of a form is bounded', async () => {
  const receiver = new FormReceiver(
    tmpdir(),
    new UploadQuota({ maxFileSize: 1, maxUploadSize: 1, maxExtractedSize: 1, advice: '' }),
    new DiskWatch(tmpdir(), async () => false),
    new SyncBehind(new UploadTurns()),
    new EarlyChecks(operations.infer, () => {}),
  );
  // Before its content comes, nothing of a file is on the disk.
  const begin = () => receiver.begin({ 'content-disposition': 'form-data; name="inputs"; filename="a.nii"' });
  for (let count = 0; count < 20_000; count += 1) await begin();
  await expect(begin()).rejects.toMatchObject({
    code: 'uploadTooLarge',
    message: expect.stringContaining('more than 20000 files'),
  });
});
