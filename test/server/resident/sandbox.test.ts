import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { findSandbox, jobsInSandbox } from '../../../src/server/sandbox/index.js';
import { systemCallFilter } from '../../../src/server/sandbox/system-call-filter.js';
import { argumentsOf, runningProcesses } from '../../support/processes.mjs';
import { sandbox } from '../../support/sandbox.js';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { plant, temporary } from '../../support/temporary.js';
import { answers, attempts } from '../sandbox/attempts.js';
import { doing, noWorkerLeft, ownApp, ownLines } from './support.js';

describe.runIf(sandbox)('a resident app in a sandbox', () => {
  const server = sharedServer({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--sandbox', 'bwrap'],
  });
  const { api } = server;

  test('In a sandbox, a resident app stays loaded, and sees only the files of its current job', async () => {
    const first = await api.run('infer', doing());
    expect(first.view).toMatchObject({ status: 'done', start: 'cold' });
    const jobs = path.join(server.dataDirectory, 'jobs');
    const second = await api.run('infer', doing(`peek:${jobs}`));
    expect(second.view).toMatchObject({ status: 'done', start: 'warm' });
    expect(ownLines(second.log).filter((line) => line.startsWith('sees '))).toEqual([`sees ${second.id}`]);
    expect(second.log).toContain('in a sandbox without network, the app is loaded already\n');
    const third = await api.run('infer', doing(`peek:${path.join(jobs, second.id)}`));
    expect(third.view.status).toBe('error');
    const own = await api.run('infer', doing(`peek:${server.dataDirectory}`));
    expect(
      ownLines(own.log)
        .filter((line) => line.startsWith('sees '))
        .sort(),
    ).toEqual(['sees jobs', 'sees workers']);
  });

  test('In a sandbox, a resident app stays loaded even if the service may write only to its data directory', async () => {
    await using root = await temporary();
    vi.stubEnv('TMPDIR', '/sys');
    onTestFinished(() => void vi.unstubAllEnvs());
    const rules = { binds: [], dataDirectory: root.path, secretFiles: [], environment: process.env };
    const { sandbox: found } = await findSandbox('bwrap', rules);
    expect(await found?.jobMountsProblem()).toBe(null);
    expect(readdirSync(root.path)).toEqual([]);
  });

  test('In a sandbox, a resident app sees Input, Output and Workspace of its job, but not its log or its record', async () => {
    await api.run('infer', doing());
    const { log, view } = await api.run('infer', doing('peek:..'));
    expect(view).toMatchObject({ status: 'done', start: 'warm' });
    expect(
      ownLines(log)
        .filter((line) => line.startsWith('sees '))
        .sort(),
    ).toEqual(['sees Input', 'sees Output', 'sees Workspace']);
  });

  test('In a sandbox, a resident app has a directory of its job as its home and for temporary files', async () => {
    const { id, log } = await api.run('infer', doing('perl:print qq(home $ENV{HOME} $ENV{TMPDIR})'));
    const place = `${jobsInSandbox}/${id}/Workspace/tmp`;
    expect(ownLines(log)).toContain(`home ${place} ${place}`);
  });

  test.runIf(systemCallFilter(process.arch))(
    'In a sandbox, a resident app can use neither kernel keys nor virtual machine sockets',
    async () => {
      const { log } = await api.run('infer', doing(`perl:${attempts}`));
      expect(ownLines(log)).toEqual(expect.arrayContaining(answers));
    },
  );

  test('In a sandbox, a resident app and everything that it started are ended at its end and by a kill', async () => {
    await api.run('infer', doing());
    const left = await api.run('infer', doing('child'));
    expect(left.log).toContain('The app left a process running');
    const id = await api.running('infer', doing('hang'), /^job /);
    expect(await api.kill(id)).toMatchObject({ status: 'killed' });
    await noWorkerLeft(server);
    expect((await api.run('infer', doing('die'))).view.error).toMatch(
      /^The command was killed, and not by this service/,
    );
    await noWorkerLeft(server);
  });

  test('In a sandbox, a resident app whose bwrap is killed, as by a lack of memory, is reported as killed', async () => {
    await api.run('infer', doing());
    const id = await api.running('infer', doing('hang'), /^job /);
    const isInner = (pid: number) => {
      const words = argumentsOf(pid);
      return words[1] === '--json-status-fd' && words.some((each) => each.startsWith(server.dataDirectory));
    };
    const inner = runningProcesses().filter(isInner);
    expect(inner).not.toEqual([]);
    for (const pid of inner) process.kill(pid, 'SIGKILL');
    const { view, log } = await api.ended(id);
    expect(view.kind).toBe('out-of-memory');
    expect(log).toContain(
      'The command was killed, and not by this service: the server may have run out of memory',
    );
    await noWorkerLeft(server);
  });
});

test.runIf(sandbox)(
  'In a sandbox, an app that exits once it is ready is reported with its exit',
  async () => {
    await using own = await ownApp('leave');
    await using server = await TestServer.start({
      runners: true,
      apps: [own.app],
      app: 'resident',
      flags: ['--sandbox', 'bwrap'],
    });
    const { view } = await server.api.run('infer', doing());
    expect(view).toMatchObject({ status: 'error', error: 'Subprocess failed (exit code 7)' });
    await noWorkerLeft(server);
  },
);

test.runIf(sandbox)('In a sandbox, a resident app stays within the memory limit of a job', async () => {
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--sandbox', 'bwrap', '--memory-per-job', '400MiB'],
  });
  await server.api.run('infer', doing());
  const { view } = await server.api.run('infer', doing('memory'));
  expect(view).toMatchObject({ status: 'error', start: 'warm', error: expect.stringContaining('of memory') });
  await noWorkerLeft(server);
});

test.runIf(sandbox)('A worker in a sandbox is found again by the next server', async () => {
  await using server = await TestServer.start({
    runners: true,
    apps: [apps.resident],
    app: 'resident',
    flags: ['--sandbox', 'bwrap', '--on-exit', 'keep'],
  });
  const held = await server.api.running('infer', doing('wait:go'), /^job /);
  await server.restart();
  await plant(path.join(server.jobDirectory(held), 'Workspace'), { go: '' });
  await server.api.ended(held);
  const { view, id } = await server.api.run('infer', doing());
  expect(view).toMatchObject({ status: 'done', start: 'warm' });
  expect(existsSync(path.join(server.jobDirectory(id), 'Output', 'jobs.txt'))).toBe(true);
});
