import { expect, test } from 'vitest';
import { sharedServer } from '../../support/server.js';
import { sha256, Tus } from '../../support/tus.js';

const server = sharedServer();
const { api } = server;
const tus = new Tus(api);

const submit = (body: object, operation = 'infer') =>
  api.fetch(`/apps/probe/${operation}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
  });

test('a job takes the files that its submission names', async () => {
  const upload = await tus.send('voxels');
  const response = await submit({ inputs: [{ upload, name: 'ct.nii.gz' }] });
  expect(response.status).toBe(200);
  const { job_id: id } = (await response.json()) as { job_id: string };
  expect((await api.ended(id)).view.status).toBe('done');
});

test('what is missing is named', async () => {
  const response = await submit({ inputs: [{ upload: sha256('never sent'), name: 'ct.nii.gz' }] });
  expect(response.status).toBe(409);
  expect(await response.json()).toMatchObject({ uploads: [sha256('never sent')] });
});
