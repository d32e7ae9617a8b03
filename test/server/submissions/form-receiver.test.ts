import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { operations } from '../../../src/contract/index.js';
import { DiskWatch } from '../../../src/server/submissions/disk-space.js';
import { FormReceiver } from '../../../src/server/submissions/form-receiver.js';
import { UploadQuota, UploadTurns } from '../../../src/server/submissions/limits.js';
import { EarlyChecks } from '../../../src/server/submissions/read-form.js';
import { SyncBehind } from '../../../src/server/submissions/uploaded-file.js';

const receiverWith = (disk: DiskWatch) =>
  new FormReceiver(
    tmpdir(),
    new UploadQuota({ maxFileSize: 1, maxUploadSize: 1, maxExtractedSize: 1, advice: '' }),
    disk,
    new SyncBehind(new UploadTurns()),
    new EarlyChecks(operations.infer, () => {}),
  );
const head = { 'content-disposition': 'form-data; name="inputs"; filename="a.nii"' };

test('the number of files of a form is bounded', async () => {
  const receiver = receiverWith(new DiskWatch(tmpdir(), async () => false));
  // Before its content comes, nothing of a file is on the disk.
  const begin = () => receiver.begin(head);
  for (let count = 0; count < 20_000; count += 1) await begin();
  await expect(begin()).rejects.toMatchObject({
    code: 'uploadTooLarge',
    message: expect.stringContaining('more than 20000 files'),
  });
});

test('the disk is looked at before a file if small ones have used it for long', async () => {
  let looks = 0;
  class NotedDisk extends DiskWatch {
    override async check(): Promise<void> {
      looks += 1;
      await super.check();
    }
  }
  const disk = new NotedDisk(tmpdir(), async () => false);
  const receiver = receiverWith(disk);
  await receiver.begin(head);
  expect(looks).toBe(0);
  for (let count = 0; count < 512; count += 1) disk.wroteFile(1);
  await receiver.begin(head);
  await receiver.begin(head);
  expect(looks).toBe(1);
});
