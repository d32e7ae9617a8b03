import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { setTimeout as delay, setImmediate as turn } from 'node:timers/promises';
import { expect, onTestFinished, test, vi } from 'vitest';
import { writeJsonFile } from '../../../src/files/index.js';
import { sendMessage, type WorkerRequest, type WorkerState, workerFiles } from '../../../src/runner/index.js';
import { identify } from '../../../src/runner/process-table.js';
import { Worker } from '../../../src/server/executors/resident/worker.js';
import { temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { localSubject } from '../executors/local-subject.js';
import { Bench } from '../executors/support.js';
import { FakeHost } from './fake-host.js';

/** Milliseconds in which a worker host that leaves would have been killed: more than it is given beyond a grace of none. */
const longEnough = 4000;

/** A worker host that is a program which never ends by itself, and what it says is written by the test. */
async function hungHost(first: WorkerState) {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const { record, socket } = workerFiles(root.path);
  const host = spawn('sleep', ['60'], { stdio: 'ignore' });
  onTestFinished(() => void host.kill('SIGKILL'));
  const ended = once(host, 'exit').then(([, signal]) => signal as string);
  writeJsonFile(record, { host: identify(host.pid ?? 0), worker: null }, { isKept: false });
  const listener = createServer().listen(socket);
  onTestFinished(() => void listener.close());

  const attached = Worker.attach(root.path, { killGrace: 0 } as WorkerRequest);
  const [connection] = (await once(listener, 'connection')) as [Socket];
  onTestFinished(() => void connection.destroy());
  const say = (state: WorkerState) => sendMessage(connection, { kind: 'state', state });
  say(first);
  return { worker: await attached, connection, ended, say };
}

test('A worker host that is slow to leave is not killed before its job has ended', async () => {
  const { worker, connection, ended, say } = await hungHost({ state: 'leaving', job: 'one' });
  worker.promised = 'one';
  expect(await Promise.race([ended, delay(longEnough, 'runs')])).toBe('runs');

  // The job has ended for the worker host, and its runner has yet to say so.
  say({ state: 'leaving', job: null });
  await once(worker, 'change');
  expect(await Promise.race([ended, delay(longEnough, 'runs')])).toBe('runs');

  await worker.release('one');
  expect(await ended).toBe('SIGKILL');
  connection.destroy();
  await worker.gone;
});

test('A worker host that leaves by itself but does not exit is killed', async () => {
  const { worker, connection, ended, say } = await hungHost({ state: 'idle', job: null });
  say({ state: 'leaving', job: null });
  expect(await ended).toBe('SIGKILL');
  connection.destroy();
  await worker.gone;
});

test('A worker host that delays reporting the end of its job is killed', async () => {
  const { worker, connection, ended } = await hungHost({ state: 'busy', job: 'one' });
  const released = worker.release('one');
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 30_001);
  onTestFinished(() => clock.mockRestore());
  worker.emit('change');
  await released;
  expect(await ended).toBe('SIGKILL');
  connection.destroy();
  await worker.gone;
});

test('A job begins only after the worker of another app has left its GPU', async () => {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const steps: string[] = [];
  const host = new FakeHost(root.path, 'worker-0123456789ab', { gpus: [0] });
  host.onLeave = () => steps.push('it is asked to leave');

  const workers = { directory: root.path, idle: 60_000, memoryUse: () => 0 };
  await using bench = await Bench.open(localSubject({ workers }));
  const executor = await bench.executor(1);
  const command = () => {
    steps.push('the job begins');
    return ['true'];
  };
  const order = { ...bench.job().order(''), devices: { kind: 'gpus', ids: [0] }, command } as const;
  const events = executor.run(order)[Symbol.asyncIterator]();
  expect((await events.next()).value).toMatchObject({ kind: 'placed', where: 'GPU 0' });
  const ended = events.next();
  await until('the worker hears it', () => steps.includes('it is asked to leave'));
  await turn();
  steps.push('it leaves');
  host.leave();
  expect((await ended).value).toMatchObject({ kind: 'ended', exitCode: 0 });
  expect(steps).toEqual(['it is asked to leave', 'it leaves', 'the job begins']);
});
