import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { least } from '../support/form.js';
import { file } from '../support/form.mjs';
import { filePart, multipart, submissionHead } from '../support/multipart.mjs';
import { RawConnection } from '../support/raw-http.js';
import { json } from '../support/scripted-server.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const drained = 'The server is draining and accepts no new jobs; submit again later';

describe('remote-app drain', () => {
  test('remote-app drain lets active jobs go on, refuses new ones in words, and is taken back', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'ct' });
    const env = { REMOTE_APP_SERVER: server.url };
    const { id, gate } = await server.heldJob();

    const asked = await cli.run(['drain'], env);
    expect([asked.code, asked.stdout]).toEqual([0, 'No new job is accepted; 1 active job goes on.\n']);
    const refusal = await server.api.submit('infer', { inputs: file('ct.nii') });
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([503, '60']);
    expect(await refusal.json()).toEqual({ detail: drained });
    const refused = await cli.run(['infer', 'ct.nii'], env);
    expect([refused.code, refused.stderr]).toEqual([6, expect.stringContaining(drained)]);
    expect(refused.stderr).toContain('Try again in 60 seconds');
    expect((await server.api.job(id)).status).toBe('running');
    expect(server.stderr).toMatch(/^\S+Z No new job is accepted from now on; 1 active job goes on$/m);

    const undone = await cli.run(['drain', '--undo'], env);
    expect([undone.code, undone.stdout]).toEqual([0, 'New jobs are accepted again.\n']);
    gate.open();
    expect((await server.api.ended(id)).view.status).toBe('done');
    expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
  });

  test('--wait returns when the last job has ended, and a start accepts jobs again', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    const first = await server.heldJob({ cpu: '1' });
    const second = await server.heldJob({ cpu: '1' });
    const waiting = cli.begin(['drain', '--wait'], { REMOTE_APP_SERVER: server.url });
    let isOver = false;
    void waiting.ended.then(() => {
      isOver = true;
    });
    let said = '';
    waiting.stderr.on('data', (chunk: Buffer) => {
      said += chunk;
    });
    await until('it waits', () => said.includes('2 active jobs go on. Waiting for the end.'));
    first.gate.open();
    await until('one is left', () => said.includes('1 active job left'));
    expect(isOver).toBe(false);
    second.gate.open();
    const { code, stdout } = await waiting.ended;
    expect([code, stdout]).toEqual([0, 'No new job is accepted; no job is active.\n']);
    expect(said).toBe(
      'No new job is accepted; 2 active jobs go on. Waiting for the end.\n1 active job left\n',
    );
    await server.stop();
    await server.start();
    expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
  });

  test('remote-app drain says when the server does otherwise, or somebody has undone it meanwhile', async () => {
    await using cli = await Cli.create();
    let draining = true;
    await using server = await fakeService({
      override: ({ method, url }, response) => {
        if (!url.startsWith('/drain')) return false;
        json(response, 200, { draining: method === 'GET' ? false : draining, active: 1 });
        return true;
      },
    });
    const run = (...words: readonly string[]) => cli.run(['drain', ...words, '--server', server.url]);
    const waited = await run('--wait');
    expect([waited.code, waited.stderr]).toEqual([
      1,
      'No new job is accepted; 1 active job goes on. Waiting for the end.\n' +
        `Error: ${server.url} accepts new jobs again: somebody has undone the drain; drain it again\n`,
    ]);
    expect((await run('--undo')).stderr).toContain('answered that it still accepts no new job');
    draining = false;
    expect((await run()).stderr).toContain('answered that it accepts new jobs');
  });

  test('An upload that has begun counts as active, and becomes a job', async () => {
    await using server = await TestServer.start();
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using upload = await RawConnection.open(server.url);
    upload.write(submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`));
    upload.write(body.subarray(0, body.length / 2));
    await until('the upload has begun', () => server.jobDirectories().length === 1);
    const state = await server.api.json('/drain', { method: 'POST' });
    expect(state).toEqual({ draining: true, active: 1 });
    upload.write(body.subarray(body.length / 2));
    await until('it is accepted', () => upload.received.includes('job_id'));
    await until('it has ended', async () => (await server.api.json('/drain')).active === 0);
    expect((await server.api.json<{ jobs: unknown[] }>('/jobs')).jobs).toHaveLength(1);
  });
});
