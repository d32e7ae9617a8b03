import { closeSync, openSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { runFiles } from '../../../src/runner/index.js';
import { least, steps } from '../../support/form.js';
import { openFilesOf } from '../../support/processes.js';
import { environmentOf } from '../../support/processes.mjs';
import { sandbox } from '../../support/sandbox.js';
import { apps, sharedServer, TestServer } from '../../support/server.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { doing } from '../resident/support.js';

const secret = 'a-token-that-nobody-may-see';
const server = sharedServer({
  runners: true,
  token: secret,
  environment: {
    LAB_TOKEN: secret,
    OMP_NUM_THREADS: '3',
    PLAIN: 'not passed on',
    TORCH_AUTH: 'not passed on',
    NAMED: 'passed on',
    CUDA_VISIBLE_DEVICES: '0',
    TMPDIR: '/elsewhere',
  },
  flags: ['--token-env', 'LAB_TOKEN', '--pass-env', 'NAMED', '--pass-env', 'LAB_TOKEN'],
});
const { api } = server;

describe("a job's environment", () => {
  test("A job's environment consists of the server's variables listed in the table, those the admin named, and those a job needs", async () => {
    const { id } = await api.run('infer', least.infer);
    const { env, cwd } = await api.recorded(id);
    expect(env).toMatchObject({
      OMP_NUM_THREADS: '3',
      NAMED: 'passed on',
      HOME: server.scratch,
      PYTHONUNBUFFERED: '1',
      DO_NOT_TRACK: '1',
      HF_HUB_DISABLE_TELEMETRY: '1',
      ORT_DISABLE_TELEMETRY: '1',
      CUDA_VISIBLE_DEVICES: '',
      REMOTE_APP_JOB_ID: id,
    });
    expect(env).not.toHaveProperty('PLAIN');
    expect(env).not.toHaveProperty('TORCH_AUTH');
    expect(cwd.startsWith(`${server.jobDirectory(id)}/`)).toBe(true);
    expect(env.TMPDIR?.startsWith(`${cwd}/`)).toBe(true);
  });

  test("A job's environment names a directory for temporary files, with room for the name of a socket", async () => {
    const { view } = await api.run('infer', { ...least.infer, ...steps('socket=') });
    expect(view).toMatchObject({ status: 'done', error: null });
  });

  test("A job's environment contains no token, and neither does that of its runner", async () => {
    const gate = server.gate();
    const form = { ...least.infer, ...steps('stray=', 'child=', 'print=forked', `wait=${gate.path}`) };
    const id = await api.running('infer', form, 'forked');
    // The runner, the command, and what the command forked.
    const pids = await until('all four run', () => {
      const all = server.processes();
      return all.length >= 4 ? all : null;
    });
    for (const pid of pids) {
      const environment = environmentOf(pid).join('\n');
      expect(environment).not.toContain(secret);
      expect(environment).not.toMatch(/SERVICE_API_TOKEN|LAB_TOKEN/);
    }
    gate.open();
    await api.ended(id);
    expect(JSON.stringify((await api.recorded(id)).env)).not.toContain(secret);
  });
});

/** The names in `/tmp` that lead into a data directory. */
const leadingTo = (directory: string): string[] =>
  readdirSync('/tmp').filter((name) => {
    try {
      return readlinkSync(path.join('/tmp', name)).startsWith(`${directory}/`);
    } catch {
      return false;
    }
  });

describe.each([...(sandbox ? ['bwrap'] : []), 'off'])(
  'with --sandbox %s and a data directory with a long path',
  (mode) => {
    test(`With --sandbox ${mode} and a data directory with a long path, jobs and workers have room for sockets, and inherit nothing from the server`, async () => {
      await using root = await temporary();
      const left = path.join(root.path, 'left-open');
      const file = openSync(left, 'w');
      const dataDirectory = path.join(root.path, 'long'.repeat(20), 'data');
      await using server = await TestServer.start({
        runners: true,
        apps: [apps.probe, apps.resident],
        flags: ['--sandbox', mode],
        leftOpen: file,
        dataDirectory,
      });
      closeSync(file);
      const openFiles = () => server.processes().flatMap((pid) => [...openFilesOf(pid).values()]);
      const start = { ...least.infer, ...steps('socket=', 'wait=/never') };
      for (const end of ['the job', 'its runner']) {
        const id = await server.api.running('infer', start, 'has a socket');
        expect(leadingTo(dataDirectory)).toEqual(mode === 'off' ? [`remote-app-${id}`] : []);
        expect(openFiles().length).toBeGreaterThan(0);
        expect(openFiles()).not.toContain(left);
        if (end === 'the job') await server.api.kill(id);
        else
          process.kill(
            JSON.parse(readFileSync(runFiles(server.jobDirectory(id)).record, 'utf8')).runner.pid,
            'SIGKILL',
          );
        await server.api.ended(id);
        expect(leadingTo(dataDirectory)).toEqual([]);
      }
      for (const start of ['cold', 'warm']) {
        const { log, view } = await server.api.run('infer', doing('socket'), { app: 'resident' });
        expect(view).toMatchObject({ status: 'done', start });
        expect(log.match(/data: has a socket$/gm)).toHaveLength(2);
      }
      expect(openFiles()).not.toContain(left);
      await server.stop();
      expect(leadingTo(dataDirectory)).toEqual([]);
    });
  },
);

describe("a job's files", () => {
  test("A job's files can be read only by the server's user", async () => {
    const { id } = await api.run('infer', least.infer);
    const directory = server.jobDirectory(id);
    for (const name of ['Output', 'Workspace', 'log', 'job.json']) {
      expect([name, statSync(path.join(directory, name)).mode & 0o077]).toEqual([name, 0]);
    }
    expect(statSync(server.dataDirectory).mode & 0o777).toBe(0o700);
  });
});
