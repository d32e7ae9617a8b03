import { cpSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { apps, TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';

const { version } = JSON.parse(readFileSync('package.json', 'utf8')) as { version: string };

const citation = [
  { text: 'Ana A. Livers in CT. Journal 1 (2026).', doi: '10.1234/livers', licence: 'CC-BY-4.0' },
  { text: 'Ben B. Networks.' },
];

/** A server of the app `liver`, which has these references, and a command line in a directory with two scans. */
async function liverServer() {
  const cli = await Cli.create();
  const app = path.join(cli.directory, 'liver');
  cpSync(apps.probe, app, { recursive: true });
  const cites = (references: unknown) => {
    const file = path.join(app, 'app.json');
    const manifest = {
      ...JSON.parse(readFileSync(file, 'utf8')),
      display_name: 'Liver',
      citation: references,
    };
    writeFileSync(file, JSON.stringify(manifest));
  };
  cites(citation);
  await plant(cli.directory, { 'scans/a.nii': 'a', 'scans/b.nii': 'b' });
  const server = await TestServer.start({ apps: [app], app: 'liver', gpus: 1 });
  const run = async (...words: string[]) => cli.run(words, { REMOTE_APP_SERVER: server.url });
  const cite = async (...words: string[]) => {
    return JSON.parse((await run('cite', ...words, '--json')).stdout).cited;
  };
  return {
    ...{ cli, run, cite, cites, server },
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await cli[Symbol.asyncDispose]();
    },
  };
}

test('A result is cited from its record, with its app as it was when the job ran, and so is the job on the server', async () => {
  await using it = await liverServer();
  expect((await it.run('infer', 'scans/a.nii', '-o', 'One', '--gpu', '0')).code).toBe(0);
  const [ofJob] = await it.cite();
  const [ofRecord] = await it.cite('One');
  const [job] = ofRecord.job_ids;
  expect(ofRecord).toEqual({
    app: 'liver',
    display_name: 'Liver',
    app_version: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    operation: 'infer',
    checkpoints: ['CV_0.pt', 'CV_1.pt'],
    citation,
    server_version: version,
    client_version: version,
    devices: [expect.stringContaining('NVIDIA')],
    job_ids: [expect.stringMatching(/^[0-9a-f]{12}$/)],
    sentence: `The results were computed with Liver (liver, version ${ofRecord.app_version.slice(7, 19)}) [1, 2], run by remote-app ${version} on ${ofRecord.devices[0]}.`,
  });
  // The server does not say which checkpoints were chosen.
  expect(ofJob).toEqual({ ...ofRecord, checkpoints: [] });
  expect((await it.run('apps', 'liver')).stdout).toContain(
    'https://doi.org/10.1234/livers (weights: CC-BY-4.0); Ben B.',
  );

  it.cites([{ text: 'Another work.' }]);
  const changed = await it.run('cite', job);
  expect(changed.stdout).toContain('[1] Another work.\n');
  expect(changed.stderr).toContain(`'liver' has changed since job ${job} ran`);
  await it.server[Symbol.asyncDispose]();
  const { code, stdout } = await it.run('cite', 'One/remote-app-record.json');
  expect(code).toBe(0);
  expect(stdout).toContain(
    `${ofRecord.sentence}\n\n[1] Ana A. Livers in CT. Journal 1 (2026). https://doi.org/10.1234/livers (weights: CC-BY-4.0)\n[2] Ben B. Networks.\n\nApp `,
  );
});

test.each(['cases', 'bids'])('The cases of a cohort in the layout %s are cited together', async (layout) => {
  await using it = await liverServer();
  await plant(it.cli.directory, {
    'bids/sub-1/anat/sub-1_T1w.nii': '1',
    'bids/sub-2/anat/sub-2_T1w.nii': '2',
  });
  const ran = await it.run('infer', '--each', 'bids', '-o', 'Results', '--layout', layout);
  expect(ran.code, ran.stderr).toBe(0);
  const cited = await it.cite('Results');
  expect(cited).toEqual([expect.objectContaining({ app: 'liver', citation })]);
  expect(cited[0].job_ids).toHaveLength(2);
});

test('A path without a record is refused with what to name instead', async () => {
  await using it = await liverServer();
  for (const [named, sentence] of [
    ['scans', "'scans' has no record that can be read: name a remote-app-record.json"],
    ['scans/a.nii', "'scans/a.nii' has no record that can be read"],
    ['./nothing', "'./nothing' is not the id of a job"],
  ] as const) {
    const { code, stderr } = await it.run('cite', named);
    expect([code, stderr]).toEqual([2, expect.stringContaining(sentence)]);
  }
});
