import { expect, test } from 'vitest';
import type { JobAnswer } from '../../../src/client/connection/index.js';
import { forecastFrom, forecastOf, forecastOfJob } from '../../../src/client/connection/index.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { connectTo } from '../support/connect.js';

const own = { app: 'tissue', operation: 'infer', inputs: ['a.nii'], assigned_gpus: [0] };
const done = (more: object = {}) =>
  ({ ...own, status: 'done', run_seconds: 100, ...more }) as unknown as JobAnswer;

test('is the median of the newest twelve, of which none is too short to tell', () => {
  expect(forecastFrom([])).toBeNull();
  expect(forecastFrom([9.9])).toBeNull();
  expect(forecastFrom([10])).toEqual({ seconds: 10, cases: 1 });
  expect(forecastFrom([300, 20, 100])).toEqual({ seconds: 100, cases: 3 });
  const [old, recent] = [Array.from({ length: 30 }, () => 9000), Array.from({ length: 12 }, () => 60)];
  expect(forecastFrom([...recent, ...old])).toEqual({ seconds: 60, cases: 12 });
});

test.each([
  ['that are alike', done(), 1],
  ['that failed', done({ status: 'error' }), 0],
  ['of another app', done({ app: 'brain' }), 0],
  ['of another operation', done({ operation: 'evaluate' }), 0],
  ['with more inputs', done({ inputs: ['a.nii', 'b.nii'] }), 0],
  ['on the CPU', done({ assigned_gpus: [] }), 0],
  ['on the CPU, as KonfAI says it', done({ assigned_gpus: null }), 0],
  ['on another GPU', done({ assigned_gpus: [1, 2] }), 1],
  ['whose time is not known', done({ run_seconds: null }), 0],
])('is made of jobs %s: %#', (_, job, cases) => {
  expect(forecastOf([job], own)?.cases ?? 0).toBe(cases);
});

test('counts all inputs and GPUs where nothing is known of these, and is none for an unknown app', () => {
  const jobs = [done({ inputs: [] }), done({ assigned_gpus: [] })];
  expect(forecastOf(jobs, { app: 'tissue', operation: 'infer' })?.cases).toBe(2);
  expect(forecastOf(jobs, { app: null, operation: 'infer' })).toBeNull();
  expect(forecastOf(jobs, { app: 'tissue', operation: null })).toBeNull();
});

test('of a job is made of those that the server lists like it', async () => {
  const jobs = [
    { ...own, job_id: 'ab', status: 'running' },
    { ...done({ run_seconds: 60 }), job_id: 'cd' },
    { ...done({ run_seconds: 900, inputs: [] }), job_id: 'ef' },
  ];
  await using server = await ScriptedServer.start((_, response) => json(response, 200, { jobs }));
  await using connection = connectTo(server.url);
  expect(await forecastOfJob(connection, 'ab')).toEqual({ seconds: 60, cases: 1 });
  expect(await forecastOfJob(connection, 'xy')).toBeNull();
  expect(server.received[0]?.url).toBe('/jobs?limit=200');
});
