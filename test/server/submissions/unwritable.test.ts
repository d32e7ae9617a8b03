import { chmodSync, renameSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { least } from '../../support/form.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ asOrdinaryUser: true });

test.for(['incoming', 'jobs'])(
  'A submission is answered with an explanation if DATA/%s cannot be written to, and accepted once it can',
  async (name) => {
    const directory = path.join(server.dataDirectory, name);
    chmodSync(directory, 0o500);
    const refused = await server.api.refused('infer', least.infer);
    chmodSync(directory, 0o700);
    expect(refused).toEqual([
      507,
      'The server cannot write its data directory, so it takes no jobs until its admin fixes that',
    ]);
    await until('its admin is told where', () => server.stderr.includes(directory));
    expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
    await until('nothing of the refused one is left', async () => {
      const { jobs } = await server.api.json<{ jobs: unknown[] }>('/jobs');
      return server.jobDirectories().length === jobs.length;
    });
  },
);

test('A submission is answered with the same explanation while the data directory is missing', async () => {
  const incoming = path.join(server.dataDirectory, 'incoming');
  renameSync(incoming, `${incoming}-away`);
  const [status] = await server.api.refused('infer', least.infer);
  renameSync(`${incoming}-away`, incoming);
  expect(status).toBe(507);
  expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
});
