import { chmodSync, realpathSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { limitWords, Sandbox } from '../../../src/server/sandbox/sandbox.js';
import { plant, temporary } from '../../support/temporary.js';

const root = await temporary();
afterAll(() => root[Symbol.asyncDispose]());
const at = (name: string) => path.join(realpathSync(root.path), name);
await plant(root.path, {
  'app/run': '',
  'data/jobs/1/Input/': '',
  'models/weights': '',
  'cache/': '',
  'secrets/tokens.json': '',
  'bin/prlimit': '',
});
for (const name of ['app/run', 'bin/prlimit']) chmodSync(at(name), 0o755);
symlinkSync(at('models'), at('linked'));

const rules = {
  binds: [
    { path: at('linked'), isWritable: false },
    { path: at('cache'), isWritable: true },
    { path: at('gone'), isWritable: false },
  ],
  dataDirectory: at('data'),
  secretFiles: [at('secrets/tokens.json')],
  environment: {},
};
const job = at('data/jobs/1');
const order = {
  directory: {
    input: `${job}/Input`,
    output: `${job}/Output`,
    workspace: `${job}/Workspace`,
    temporary: `${job}/Workspace/tmp`,
  },
  command: [at('app/run')],
  grant: { gpus: [], gpuUuids: [], cpuSlots: 1 },
  access: { network: false, directories: [at('app')], environment: {} },
  memory: null,
};

/** The places of a flag that takes a source and a place, below the directory of the test, in their order. */
const mounts = (words: readonly string[]) =>
  words.flatMap((word, index) => {
    const [source = '', place = ''] = words.slice(index + 1, index + 3);
    return ['--bind', '--ro-bind'].includes(word) && source.startsWith(at('')) ? [[word, source, place]] : [];
  });
const has = (words: readonly string[], ...part: string[]) =>
  ` ${words.join(' ')} `.includes(` ${part.join(' ')} `);

test('a job sees its app, what the admin binds, and its own files, which come last', () => {
  const words = new Sandbox('/usr/bin/bwrap', rules, undefined).wrap(order, '');
  const same = (flag: string, name: string) => [flag, at(name), at(name)];
  const own = (name: string) => ['--bind', `${job}/${name}`, `${job}/${name}`];
  expect(mounts(words)).toEqual([
    ['--bind', `${job}/Workspace/tmp`, '/tmp'],
    same('--ro-bind', 'app'),
    same('--bind', 'cache'),
    // A program may use either name.
    same('--ro-bind', 'linked'),
    same('--ro-bind', 'models'),
    own('Input'),
    own('Output'),
    own('Workspace'),
  ]);
  expect(words.slice(0, 3)).toEqual(['/usr/bin/bwrap', '--json-status-fd', '3']);
  expect(words.slice(-5)).toEqual(['--chdir', `${job}/Workspace`, '--remount-ro', '/', '--']);
  expect([has(words, '--unshare-net'), has(words, '--seccomp'), has(words, '--size')]).toEqual([
    true,
    false,
    false,
  ]);
  expect(words.filter((word) => word.startsWith('/dev/nvidia'))).toEqual([]);
});

test('a job has the devices, the network and the memory that it may have, and its filter of system calls', () => {
  const words = new Sandbox('/usr/bin/bwrap', rules, Buffer.from('filter')).wrap(
    {
      ...order,
      grant: { gpus: [5], gpuUuids: [], cpuSlots: 0 },
      access: { ...order.access, network: true },
      memory: 4096,
    },
    '',
  );
  expect(words.slice(1, 5)).toEqual(['--json-status-fd', '3', '--seccomp', '4']);
  expect(has(words, '--unshare-net')).toBe(false);
  expect(has(words, '--size', '4096', '--tmpfs', '/dev/shm', '--remount-ro', '/dev')).toBe(true);
  expect(has(words, '--dev-bind-try', '/dev/nvidia5', '/dev/nvidia5')).toBe(true);
  expect(has(words, '--dev-bind-try', '/dev/nvidiactl', '/dev/nvidiactl')).toBe(true);
});

test('the data of others and a secret stay hidden in what is bound around them', () => {
  const around = { ...rules, binds: [{ path: at(''), isWritable: true }] };
  const words = new Sandbox('/usr/bin/bwrap', around, undefined).wrap(order, '');
  for (const name of ['data', 'secrets']) {
    const hidden = words.lastIndexOf(at(name));
    expect(has(words, '--tmpfs', at(name))).toBe(true);
    // After the mounts below them.
    expect(words.slice(hidden - 1, hidden)).toEqual(['--remount-ro']);
    expect(words.indexOf('--chdir')).toBeLessThan(hidden);
  }
  expect(words.indexOf('--tmpfs', words.indexOf('/var/tmp'))).toBeLessThan(words.indexOf(`${job}/Input`));
});

test('a worker sees none of the jobs but its own, under two names, and what it is watched for', () => {
  const words = new Sandbox('/usr/bin/bwrap', rules, Buffer.from('filter')).wrapWorker(
    {
      home: at('cache'),
      temporary: at('cache'),
      jobMounts: { directory: at('models'), jobs: at('data/jobs') },
      watched: [at('linked/weights'), at('app/run')],
      command: [at('app/run')],
      grant: order.grant,
      access: order.access,
      memory: null,
    },
    '',
  );
  const inner = words.slice(words.lastIndexOf('/usr/bin/bwrap'));
  expect(inner.slice(1, 5)).toEqual(['--json-status-fd', '4', '--seccomp', '6']);
  expect(mounts(inner).slice(-3)).toEqual([
    ['--bind', at('cache'), at('cache')],
    ['--ro-bind', at('models'), at('data/jobs')],
    ['--ro-bind', at('models'), '/run/jobs'],
  ]);
  expect(has(inner, '--ro-bind', at('linked/weights'), at('linked/weights'))).toBe(true);
  expect(inner).not.toContain(at('app/run'));
  expect(has(inner, '--chdir', at('cache'))).toBe(true);
});

test.for([
  [{ memory: null, processes: null }, []],
  [{ memory: 1000, processes: null }, ['--data=2000:2000']],
  [{ memory: 1000, processes: 7 }, ['--nproc=7:7', '--data=2000:2000']],
] as const)('the limits %o are those of the kernel', ([limits, words]) => {
  expect(limitWords(limits, at('bin'))).toEqual(words.length === 0 ? [] : [at('bin/prlimit'), ...words]);
});
