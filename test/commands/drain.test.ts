import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService } from '../support/fake-service.js';
import { least, steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { filePart, multipart, submissionHead } from '../support/multipart.mjs';
import { RawConnection } from '../support/raw-http.js';
import { json } from '../support/scripted-server.js';
import { TestServer } from '../support/server.js';
import { plant } from '../support/temporary.js';
import { until } from '../support/until.mjs';

const drained = 'The server is draining and accepts no new jobs; submit again later';

describe('remote-app drain', () => {
  test('remote-app drain lets active jobs continue, refuses new ones with an explanation, and can be undone', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    await plant(cli.directory, { 'ct.nii': 'ct' });
    const env = { REMOTE_APP_SERVER: server.url };
    const { id, gate } = await server.heldJob();

    const asked = await cli.run(['drain'], env);
    expect([asked.code, asked.stdout]).toEqual([0, 'No new job is accepted; 1 active job continues.\n']);
    const refusal = await server.api.submit('infer', { inputs: file('ct.nii') });
    expect([refusal.status, refusal.headers.get('retry-after')]).toEqual([503, '60']);
    expect(await refusal.json()).toEqual({ detail: drained });
    const refused = await cli.run(['infer', 'ct.nii'], env);
    expect([refused.code, refused.stderr]).toEqual([6, expect.stringContaining(drained)]);
    expect(refused.stderr).toContain('Try again in 60 seconds');
    expect((await server.api.job(id)).status).toBe('running');
    expect(server.stderr).toMatch(/^\S+Z New jobs are no longer accepted; 1 active job continues$/m);

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
    await until('it waits', () => said.includes('2 active jobs continue. Waiting for the end.'));
    first.gate.open();
    await until('one is left', () => said.includes('1 active job left'));
    expect(isOver).toBe(false);
    second.gate.open();
    const { code, stdout } = await waiting.ended;
    expect([code, stdout]).toEqual([0, 'No new job is accepted; no job is active.\n']);
    expect(said).toBe(
      'No new job is accepted; 2 active jobs continue. Waiting for the end.\n1 active job left\n',
    );
    await server.stop();
    await server.start();
    expect((await server.api.run('infer', least.infer)).view.status).toBe('done');
  });

  test('remote-app drain says if the server does not comply, or if somebody has undone the drain', async () => {
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
      'No new job is accepted; 1 active job continues. Waiting for the end.\n' +
        `Error: ${server.url} accepts new jobs again: somebody has ended the drain; drain it again\n`,
    ]);
    expect((await run('--undo')).stderr).toContain('answered that it still accepts no new job');
    draining = false;
    expect((await run()).stderr).toContain('answered that it accepts new jobs');
  });

  test('--gpu withholds a GPU from new jobs, even after a restart, until it is released again', async () => {
    const flags = ['--on-exit', 'keep', '--metrics', '--audit-log', 'audit'];
    await using cli = await Cli.create();
    flags[4] = `${cli.directory}/audit`;
    await using server = await TestServer.start({ runners: true, gpus: 2, flags });
    const { api } = server;
    const run = (...words: readonly string[]) => cli.run(words, { REMOTE_APP_SERVER: server.url });
    const gate = server.gate();
    const held = { ...least.infer, ...steps('print=x', `wait=${gate.path}`) };
    const id = await api.running('infer', { ...held, gpu: '1' }, 'x');
    expect((await run('drain', '--gpu', '1')).stdout).toBe('No new job gets GPU 1.\n');
    expect((await run('gpus')).stdout).toMatch(new RegExp(`^1 .* job ${id}, drained$`, 'm'));
    const { job_id: named } = await api.accepted('infer', { ...least.infer, gpu: '1' });
    gate.open();
    expect((await api.ended(id)).view.status).toBe('done');

    await server.stop();
    await server.start();
    expect((await api.reaches(named, 'waiting')).waiting_for).toBe('GPU 1; an admin has drained GPU 1');
    expect((await api.run('infer', least.infer)).view.assigned_gpus).toEqual([0]);
    expect((await run('gpus')).stdout).toMatch(/^1 .* drained$/m);
    expect(await api.json('/drain')).toEqual({ draining: false, active: 1, gpus: [1] });
    expect(await (await api.fetch('/metrics')).text()).toContain('remote_app_gpu_drained{gpu="1"} 1\n');
    expect((await run('drain', '--gpu', '0')).stdout).toBe('No new job gets GPU 0, 1.\n');
    const { job_id: any } = await api.accepted('infer', least.infer);
    const why = 'a free GPU; an admin has drained GPU 0, 1';
    expect((await api.reaches(any, 'waiting')).waiting_for).toBe(why);

    expect((await run('drain', '--gpu', '0,1', '--undo')).stdout).toBe('No GPU is drained.\n');
    expect((await api.ended(named)).view).toMatchObject({ status: 'done', assigned_gpus: [1] });
    expect((await api.ended(any)).view.status).toBe('done');
    expect((await run('drain', '--gpu', '7')).stderr).toContain(
      'Unknown GPU id(s): 7; this server has: 0, 1',
    );
    const audit = (await readFile(`${cli.directory}/audit`, 'utf8')).split('\n').filter(Boolean);
    expect(audit.map((line) => JSON.parse(line)).filter(({ event }) => event === 'drain')).toMatchObject([
      { draining: true, gpus: '1' },
      { draining: true, gpus: '0' },
      { draining: false, gpus: '0,1' },
    ]);
    expect(server.stderr).toContain('Jobs get GPU 0, 1 again');
  });

  test('An upload that has begun counts as active, and becomes a job', async () => {
    await using server = await TestServer.start();
    const body = multipart([filePart('inputs', 'a.nii')]);
    await using upload = await RawConnection.open(server.url);
    upload.write(submissionHead('/apps/probe/infer', `Content-Length: ${body.length}`));
    upload.write(body.subarray(0, body.length / 2));
    await until('the upload has begun', () => server.jobDirectories().length === 1);
    const state = await server.api.json('/drain', { method: 'POST' });
    expect(state).toEqual({ draining: true, active: 1, gpus: [] });
    upload.write(body.subarray(body.length / 2));
    await until('it is accepted', () => upload.received.includes('job_id'));
    await until('it has ended', async () => (await server.api.json('/drain')).active === 0);
    expect((await server.api.json<{ jobs: unknown[] }>('/jobs')).jobs).toHaveLength(1);
  });
});
