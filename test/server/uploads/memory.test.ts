import { expect, test } from 'vitest';
import { filePart, multipart, multipartType } from '../../../support/multipart.mjs';
import { until } from '../../../support/until.mjs';
import { least } from '../../support/form.js';
import { TestServer } from '../../support/server.js';

test('the buffers of an upload are freed by collections of young objects, every 4 MiB', async () => {
  await using server = await TestServer.start({ node: ['--trace-gc'] });
  const told = (kind: string) => server.stdout.split(kind).length - 1;
  // Loads what reads forms.
  await server.api.run('infer', least.infer);
  const before = told('Scavenge');
  const body = multipart([filePart('inputs', 'a.nii', Buffer.alloc(256 << 20, 'x'))]);
  const answer = await fetch(`${server.url}/apps/probe/infer`, {
    method: 'POST',
    headers: { 'content-type': multipartType },
    body,
  });
  expect(answer.status).toBe(200);
  // V8 by itself makes six or fewer, and ten collections of all objects, which cost the server most of its time.
  await until('the collections are printed', () => told('Scavenge') >= before + 48);
});
