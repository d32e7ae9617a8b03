import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { ScriptedServer } from '../support/scripted-server.js';
import { plant, temporary } from '../support/temporary.js';
import { checkGpus } from './invariants.mjs';

interface Found {
  readonly run_seconds?: number;
  readonly killRequested?: boolean;
  readonly hasExit?: boolean;
  readonly hasProcess?: boolean;
}

/** What the check says of a job that computes on GPU 0, and an older one that is listed as running there as well. */
async function checked(older: Found): Promise<string[]> {
  await using root = await temporary();
  const jobs: Readonly<Record<string, Found>> = { newer: { hasProcess: true }, older };
  const views = Object.entries(jobs).map(([job_id, { run_seconds = null }]) => {
    return { job_id, status: 'running', assigned_gpus: [0], run_seconds };
  });
  const answer = JSON.stringify({ jobs: views });
  await using scripted = await ScriptedServer.start((_request, response) => void response.end(answer));
  for (const [id, { killRequested = false, hasExit = false }] of Object.entries(jobs)) {
    const exit = hasExit ? { 'exit.json': '{}' } : {};
    await plant(path.join(root.path, id), { 'job.json': JSON.stringify({ killRequested }), ...exit });
  }
  const server = {
    url: scripted.url,
    token: null,
    jobDirectory: (id: string) => path.join(root.path, id),
    processes: () => Object.entries(jobs).flatMap(([id, { hasProcess }]) => (hasProcess ? [{ id }] : [])),
  };
  const violations: string[] = [];
  const check = (isTrue: boolean, text: string) => void (isTrue || violations.push(text));
  await checkGpus({ check }, server);
  return violations;
}

describe('two jobs are listed on one GPU, of which one', () => {
  test.for<[string, Found]>([
    ['has ended and is packed', { hasExit: true }],
    ['was killed before its command began', { run_seconds: 1.5 }],
    ['was killed so, by a server that died before it had saved that', { killRequested: true }],
  ])('%s: it holds none', async ([, older]) => {
    expect(await checked(older)).toEqual([]);
  });

  test.for<[string, Found]>([
    ['computes', { hasProcess: true }],
    ['is about to start', {}],
    ['is being killed', { killRequested: true, hasProcess: true }],
    ['is said to have ended, and computes', { run_seconds: 1.5, hasProcess: true }],
  ])('%s: that is a violation', async ([, older]) => {
    expect(await checked(older)).toEqual(['GPU 0 is held by the jobs newer and older at once']);
  });
});
