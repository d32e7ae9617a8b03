import { expect, test } from 'vitest';
import { UploadWatch } from '../../../src/client/submit/attempts.js';

test('an upload that was interrupted before it began is not sent', () => {
  const reason = new Error('interrupted');
  const upload = new UploadWatch(10, 60, AbortSignal.abort(reason), 'the server', () => {});
  expect([upload.signal.aborted, upload.signal.reason]).toEqual([true, reason]);
  upload.done();
});
