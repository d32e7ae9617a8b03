import type { RouterContext } from '@koa/router';
import { expect, test } from 'vitest';
import { maxListed } from '../../../src/contract/index.js';
import { limits } from '../../../src/server/routes/system.js';
import type { ServerSettings } from '../../../src/server/settings.js';
import { sharedServer } from '../../support/server.js';

const shown = {
  version: '1.2.3',
  maxFileSize: 200,
  maxUploadSize: 300,
  maxDatasetSize: 500,
  maxJobs: 7,
  userLimits: { max_jobs: 2, max_kept: null },
  grace: 60_000,
  maxKeep: 3_600_000,
  keepUploads: 86_400_000,
  maxRunTime: 7_200_000,
  maxFineTuneTime: 9_000_000,
  requireDeidentified: true,
} as ServerSettings;

/** What somebody with limits of their own is told. */
async function told(own: Readonly<Record<string, number>>, more: Partial<ServerSettings> = {}) {
  const all = { max_jobs: null, max_gpus: null, max_kept: null, max_upload: null };
  const given = Object.fromEntries(Object.entries(own).map(([name, max]) => [name, { max, whose: '' }]));
  const ctx = { state: { principal: { limits: { ...all, ...given } } } } as unknown as RouterContext;
  await limits({ ...shown, ...more }, async () => {})(ctx);
  return ctx.body;
}

const ofServer = {
  version: '1.2.3',
  max_file_size: 200,
  max_upload_size: 300,
  max_dataset_size: 500,
  max_jobs: null,
  max_gpus: null,
  max_kept: null,
  grace: 60,
  max_keep: 3600,
  max_run_time: 7200,
  max_fine_tune_time: 9000,
  require_deidentified: true,
  uploads: { keep: 86_400 },
  of_server: { max_jobs: 7, max_upload_size: 300, user: { max_jobs: 2, max_kept: null } },
};

test('Limits are those of the server, in bytes and seconds', async () => {
  expect(await told({})).toEqual(ofServer);
  expect(
    await told(
      {},
      { maxDatasetSize: null, maxRunTime: null, maxFineTuneTime: null, keepUploads: 0, maxKeep: 1 },
    ),
  ).toEqual({
    ...ofServer,
    max_dataset_size: null,
    max_run_time: null,
    max_fine_tune_time: null,
    uploads: null,
    // A job may be kept for as long as one is without being asked.
    max_keep: 60,
  });
});

test('Limits of a token are reported, and restrict what may be sent', async () => {
  const own = { max_jobs: 2, max_gpus: 3, max_kept: 4 };
  expect(await told({ ...own, max_upload: 100 })).toEqual({
    ...ofServer,
    ...own,
    max_file_size: 100,
    max_upload_size: 100,
    max_dataset_size: 100,
  });
  expect(await told({ max_upload: 400 })).toEqual({ ...ofServer, max_dataset_size: 400 });
  expect(await told({ max_jobs: 0, max_gpus: 0, max_kept: 0 })).toMatchObject({
    max_jobs: 0,
    max_gpus: 0,
    max_kept: 0,
  });
});

const server = sharedServer();

test.for([
  ['1'],
  [String(maxListed)],
  ['0'],
  [String(maxListed + 1)],
  [''],
  ['-1'],
  ['x'],
  ['1&limit=2'],
  ['1.5'],
  ['1e2'],
] as const)(
  'A list of jobs may be limited to between one and the maximum number of jobs: limit=%s',
  async ([text]) => {
    const response = await server.api.fetch(`/jobs?limit=${text}`);
    const body = await response.json();
    if (['1', String(maxListed)].includes(text)) {
      expect([response.status, body]).toEqual([200, { jobs: [] }]);
    } else {
      const got = text.replace('&limit=', ',');
      const detail = `Field 'limit' must be from 1 to ${maxListed}, got '${got}'`;
      expect([response.status, body]).toEqual([422, { detail }]);
    }
  },
);
