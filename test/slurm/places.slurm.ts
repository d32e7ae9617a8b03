import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { steps } from '../support/form.js';
import { file } from '../support/form.mjs';
import { apps } from '../support/server.js';
import { cpuNodes } from '../support/slurm/configuration.mjs';
import { smallDisk } from '../support/small-disk.js';
import { plant } from '../support/temporary.js';
import { sharedCluster } from './support/shared-cluster.js';

// Mounted before the nodes start, which then have it too.
const disk = smallDisk(24);
const slurm = sharedCluster();
const bare = sharedCluster({ nodes: cpuNodes });
const inputs = file('ct.nii');
const manifest = { display_name: 'x', description: 'x', short_description: 'x', tta: 0, mc_dropout: 0 };

test('A job that fills the shared disk says so, and the next one runs', async (context) => {
  if (disk === null) return context.skip('needs the right to mount');
  await using server = await slurm.serve({ dataDirectory: mkdtempSync(path.join(disk, 'data-')) });
  const { view, log } = await server.api.run('infer', {
    inputs,
    ...steps('print=begun', 'fill=noise:60000000'),
  });
  expect([view.status, log]).toEqual(['error', expect.stringMatching(/ENOSPC|no space|disk/i)]);
  expect(log).toContain('data: begun\n');
  expect((await server.api.fetch(`/jobs/${view.job_id}`, { method: 'DELETE' })).status).toBe(200);
  expect((await server.api.run('infer', { inputs })).view.status).toBe('done');
});

test('A full disk refuses a submission, and does not lose a running job', async (context) => {
  if (disk === null) return context.skip('needs the right to mount');
  await using server = await slurm.serve({ dataDirectory: mkdtempSync(path.join(disk, 'data-')) });
  const gate = server.gate();
  const id = await server.api.running(
    'infer',
    { inputs, ...steps('print=begun', `wait=${gate.path}`, 'print=over') },
    'begun',
  );
  const ballast = path.join(disk, 'ballast');
  try {
    execFileSync('dd', ['if=/dev/zero', `of=${ballast}`, 'bs=64k'], { stdio: 'ignore' });
  } catch {
    // It ends when the disk is full, which is what it is for.
  }
  const [status, detail] = await server.api.refused('infer', { inputs });
  expect([status, detail]).toEqual([507, expect.any(String)]);
  gate.open();
  const { view } = await server.api.ended(id);
  expect(view.error ?? 'disk').toMatch(/disk|space/i);
  writeFileSync(ballast, '');
  expect((await server.api.run('infer', { inputs })).view.status).toBe('done');
});

test('A program that is missing on the node is named together with the node', async () => {
  const root = mkdtempSync(path.join(bare.cluster.shared, 'missing-'));
  const programs = path.join(root, 'programs');
  await plant(root, { 'app/app.json': JSON.stringify({ ...manifest, command: ['only-here'] }) });
  mkdirSync(programs);
  const program = path.join(programs, 'only-here');
  writeFileSync(program, '#!/bin/sh\necho here\n');
  chmodSync(program, 0o755);
  for (const name of ['n1', 'n2']) {
    expect(bare.cluster.onNode(name, ['mount', '-t', 'tmpfs', 'none', programs]).status).toBe(0);
  }
  await using server = await bare.serve({
    apps: [path.join(root, 'app')],
    app: 'app',
    environment: bare.environment(programs),
  });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/only-here[\s\S]*n[12]/) });
});

test('A job on a node that lacks Node itself ends with an error that names what is missing, and where', async () => {
  const program = process.execPath;
  for (const name of ['n1', 'n2']) {
    expect(bare.cluster.onNode(name, ['mount', '--bind', '/dev/null', program]).status).toBe(0);
  }
  try {
    await using server = await bare.serve({ apps: [apps.shell], app: 'shell' });
    const { view } = await server.api.run('infer', { inputs });
    expect(view).toMatchObject({
      status: 'error',
      error: expect.stringMatching(/node[\s\S]*n[12]|n[12][\s\S]*node/i),
    });
  } finally {
    for (const name of ['n1', 'n2']) bare.cluster.onNode(name, ['umount', program]);
  }
});

test('A data directory that the nodes do not share ends a job with a sentence that says so', async () => {
  const data = mkdtempSync(path.join(bare.cluster.shared, 'private-'));
  for (const name of ['n1', 'n2']) {
    expect(bare.cluster.onNode(name, ['mount', '-t', 'tmpfs', 'none', data]).status).toBe(0);
  }
  await using server = await bare.serve({ apps: [apps.shell], app: 'shell', dataDirectory: data });
  const { view } = await server.api.run('infer', { inputs });
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(/shared|node/i) });
});
