import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { environmentOf } from '../../../support/processes.mjs';
import { until } from '../../../support/until.mjs';
import { least, steps } from '../../support/form.js';
import { processesOfJob } from '../../support/processes.js';
import { sharedServer } from '../../support/server.js';

const secret = 'a-token-that-nobody-may-see';
const server = sharedServer({
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
  test("is what the table passes of the server's, what the admin named, and what a job needs", async () => {
    const { id } = await api.run('infer', least.infer);
    const { env, cwd } = await api.recorded(id);
    expect(env).toMatchObject({
      OMP_NUM_THREADS: '3',
      NAMED: 'passed on',
      HOME: server.scratch,
      PYTHONUNBUFFERED: '1',
      CUDA_VISIBLE_DEVICES: '',
      REMOTE_APP_JOB_ID: id,
    });
    expect(env).not.toHaveProperty('PLAIN');
    expect(env).not.toHaveProperty('TORCH_AUTH');
    expect(cwd.startsWith(`${server.jobDirectory(id)}/`)).toBe(true);
    expect(env.TMPDIR?.startsWith(`${cwd}/`)).toBe(true);
  });

  test('names a directory for temporary files', async () => {
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    const [pid = 0] = processesOfJob(id);
    const temporary = environmentOf(pid).find((entry) => entry.startsWith('TMPDIR='));
    expect(existsSync(temporary?.slice('TMPDIR='.length) ?? '')).toBe(true);
  });

  test('contains no token, and neither does that of its runner', async () => {
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

describe("a job's files", () => {
  test("can be read only by the server's user", async () => {
    const { id } = await api.run('infer', least.infer);
    const directory = server.jobDirectory(id);
    for (const name of ['Input', 'Output', 'Workspace', 'log', 'job.json']) {
      expect([name, statSync(path.join(directory, name)).mode & 0o077]).toEqual([name, 0]);
    }
    expect(statSync(server.dataDirectory).mode & 0o777).toBe(0o700);
  });
});
