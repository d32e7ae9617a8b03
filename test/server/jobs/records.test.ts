import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { withLimits } from '../../../src/access/change-tokens.js';
import { least, steps } from '../../support/form.js';
import { processesOfJob } from '../../support/processes.js';
import { TestServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { TestTokens } from '../../support/tokens.js';
import { until } from '../../support/until.mjs';

const kept = { ...least.infer, ...steps('write=a.txt:kept') };

/** A server that leaves its jobs, which have runners, to the next one when it stops. */
const keeping = { runners: true, flags: ['--on-exit', 'keep'] } as const;

/** The entries of `DATA/set-aside`, by their former names. */
const aside = (server: TestServer): string[] => {
  const directory = path.join(server.dataDirectory, 'set-aside');
  return existsSync(directory) ? readdirSync(directory).map((name) => name.replace(/\.\d{4}-.*$/, '')) : [];
};

const recordOf = (directory: string): string => path.join(directory, 'job.json');
const rewrite = (directory: string, change: (record: Record<string, unknown>) => unknown) =>
  writeFileSync(
    recordOf(directory),
    JSON.stringify(change(JSON.parse(readFileSync(recordOf(directory), 'utf8')))),
  );

const damages: readonly (readonly [string, (directory: string) => void])[] = [
  ['of 0 bytes', (directory) => truncateSync(recordOf(directory))],
  ['cut in the middle', (directory) => truncateSync(recordOf(directory), 200)],
  ['an empty object', (directory) => writeFileSync(recordOf(directory), '{}')],
  ['a list', (directory) => writeFileSync(recordOf(directory), '[]')],
  ['of a later version', (directory) => rewrite(directory, (record) => ({ ...record, version: 999 }))],
  ['of another shape', (directory) => rewrite(directory, (record) => ({ ...record, request: { app: 1 } }))],
  ['of another job', (directory) => rewrite(directory, (record) => ({ ...record, id: '0123456789ab' }))],
  ['not there', (directory) => rmSync(recordOf(directory))],
  [
    'a directory',
    (directory) => {
      rmSync(recordOf(directory));
      mkdirSync(recordOf(directory));
    },
  ],
  [
    'a pipe',
    (directory) => {
      rmSync(recordOf(directory));
      execFileSync('mkfifo', [recordOf(directory)]);
    },
  ],
  [
    'a link',
    (directory) => {
      rmSync(recordOf(directory));
      symlinkSync('/dev/zero', recordOf(directory));
    },
  ],
];

describe('a start', () => {
  test('A start sets aside each job whose record is invalid, and keeps all others', {
    timeout: 90_000,
  }, async () => {
    await using server = await TestServer.start();
    const { api } = server;
    const good = await api.run('infer', kept);
    const damaged: string[] = [];
    for (const [, damage] of damages) {
      const { id } = await api.run('infer', kept);
      damaged.push(id);
      damage(server.jobDirectory(id));
    }
    await server.restart();
    expect(aside(server).sort()).toEqual([...damaged].sort());
    for (const [index, id] of damaged.entries()) {
      const [what = ''] = damages[index] ?? [];
      expect(server.stderr, what).toContain(`Set aside '${id}'`);
      const name = readdirSync(path.join(server.dataDirectory, 'set-aside')).find((each) =>
        each.startsWith(id),
      );
      const directory = path.join(server.dataDirectory, 'set-aside', name ?? '');
      expect(readFileSync(path.join(directory, 'Output', 'a.txt'), 'utf8'), what).toBe('kept');
      expect(existsSync(path.join(directory, 'result.zip')), what).toBe(true);
      expect((await api.fetch(`/jobs/${id}`)).status).toBe(404);
    }
    expect(String((await api.result(good.id)).get('a.txt'))).toBe('kept');
    await server.restart();
    expect(server.stderr).not.toContain('Set aside');
    expect(String((await api.result(good.id)).get('a.txt'))).toBe('kept');
  });

  test.for([
    ['of 0 bytes', () => Buffer.alloc(0)],
    ['full of zeros', (text: Buffer) => Buffer.alloc(text.length)],
  ] as const)('A start continues accepted jobs if a power cut left a record %s', async ([, left]) => {
    await using server = await TestServer.start({ gpus: 1 });
    const { api } = server;
    const gate = server.gate();
    const ran = await api.running(
      'infer',
      { ...kept, ...steps('print=ready', `wait=${gate.path}`, 'write=a.txt:kept') },
      'ready',
    );
    const { job_id: waits } = await api.accepted('infer', kept);
    await api.reaches(waits, 'waiting');
    await server.stop();
    gate.open();
    await server.scriptEnded(ran);
    for (const id of [ran, waits]) {
      const file = recordOf(server.jobDirectory(id));
      writeFileSync(file, left(readFileSync(file)));
    }
    await server.start();
    expect(aside(server)).toEqual([]);
    for (const id of [ran, waits]) {
      expect(server.stderr).toContain(`Job ${id} goes on as it was accepted`);
      const { view, log } = await api.ended(id);
      expect(view.error).toBeNull();
      expect(log.match(/data: probe infer\n/g)).toHaveLength(1);
      expect(String((await api.result(id)).get('a.txt'))).toBe('kept');
    }
  });

  test.for(['exit.json', 'runner.json'])('A damaged %s ends its job, and the output stays', async (name) => {
    await using server = await TestServer.start({ ...keeping });
    const { api } = server;
    const gate = server.gate();
    const taken = ['write=a.txt:kept', 'print=ready', `wait=${gate.path}`];
    const id = await api.running('infer', { ...least.infer, ...steps(...taken) }, 'ready');
    await server.stop();
    gate.open();
    const directory = server.jobDirectory(id);
    await until('its command ends', () => existsSync(path.join(directory, 'exit.json')));
    await until('its runner ends', () => server.processes().length === 0);
    truncateSync(path.join(directory, name), 5);
    await server.start();
    const { view, log } = await api.ended(id);
    expect(['done', 'error']).toContain(view.status);
    expect(log.match(/data: probe infer\n/g)).toHaveLength(1);
    expect(readFileSync(path.join(directory, 'Output', 'a.txt'), 'utf8')).toBe('kept');
  });

  test('A start keeps the command of a job whose record it cannot read running, and its GPU reserved', async () => {
    const clock = new TestClock();
    await using server = await TestServer.start({ clock, gpus: 1 });
    const { api } = server;
    const gate = server.gate();
    const id = await api.running('infer', { ...kept, ...steps('print=ready', `wait=${gate.path}`) }, 'ready');
    await server.stop();
    const record = readFileSync(recordOf(server.jobDirectory(id)));
    truncateSync(recordOf(server.jobDirectory(id)));
    await server.start();
    expect(server.stderr).toContain(`Job ${id} is left as it is`);
    const { job_id: next } = await api.accepted('infer', kept);
    expect((await api.reaches(next, 'waiting')).waiting_for).toBe('a free GPU');
    // The disk failed only for a moment.
    writeFileSync(recordOf(server.jobDirectory(id)), record);
    gate.open();
    await until('it is known again', async () => {
      clock.pass(2);
      return (await api.fetch(`/jobs/${id}`)).ok;
    });
    expect((await api.reaches(id, 'done')).error).toBeNull();
    expect((await api.reaches(next, 'done')).error).toBeNull();
  });

  test('A start counts a job whose record can only be read later among those of its owner, and lists it in its place', async () => {
    await using tokens = new TestTokens();
    tokens.create('ana');
    const flags = ['--tokens', tokens.file];
    await using server = await TestServer.start({ asOrdinaryUser: true, flags });
    const ana = tokens.api(server, 'ana');
    const large = { ...least.infer, ...steps(`fill=large:${2 ** 20}`) };
    const { id: old } = await ana.run('infer', large);
    const { id: recent } = await ana.run('infer', least.infer);
    await server.crash();
    const record = recordOf(server.jobDirectory(old));
    chmodSync(record, 0);
    tokens.edit((before) => withLimits(before, 'ana', { max_kept: 2 ** 20 }));
    await server.start();
    expect((await ana.fetch(`/jobs/${old}`)).status).toBe(404);
    chmodSync(record, 0o600);
    await until('it is known again', async () => (await ana.fetch(`/jobs/${old}`)).ok);
    const { jobs } = await ana.json<{ jobs: { job_id: string }[] }>('/jobs');
    expect(jobs.map(({ job_id }) => job_id)).toEqual([recent, old]);
    expect(await ana.refused('infer', least.infer)).toEqual([
      507,
      expect.stringMatching(/^The jobs of token 'ana' keep 2\.\d MiB of the 1\.0 MiB/),
    ]);
  });

  test('A start ends the processes of a job whose directory was removed, before its GPU is granted again', async () => {
    await using server = await TestServer.start({ ...keeping, gpus: 1 });
    const { api } = server;
    const id = await api.running(
      'infer',
      { ...least.infer, ...steps('print=ready', `wait=${server.gate().path}`) },
      'ready',
    );
    await server.stop();
    rmSync(server.jobDirectory(id), { recursive: true });
    await server.start();
    expect(server.stderr).toContain(`Job ${id} is running, but its directory was removed`);
    expect(processesOfJob(id)).toEqual([]);
    expect((await api.run('infer', kept)).view.status).toBe('done');
  });

  test('A start does not run a job again if its app has removed the files of its runner', async () => {
    await using server = await TestServer.start({ ...keeping });
    const { api } = server;
    const gate = server.gate();
    const taken = ['shell=rm -r ../claimed ../runner.json', 'print=ready', `wait=${gate.path}`];
    const id = await api.running('infer', { ...least.infer, ...steps(...taken) }, 'ready');
    await server.stop();
    await server.start();
    gate.open();
    const { view, log } = await api.ended(id);
    expect(view.status).toBe('done');
    expect(log.match(/data: probe infer\n/g)).toHaveLength(1);
  });

  test('A start finds its jobs through a data directory that is a link', async () => {
    await using server = await TestServer.start();
    await server.stop();
    const link = path.join(server.scratch, 'link');
    symlinkSync(server.dataDirectory, link);
    await using linked = new TestServer({ dataDirectory: link, flags: ['--grace', '0'] });
    await linked.start();
    const { job_id: id } = await linked.api.accepted('infer', least.infer);
    await until('it expires', async () => (await linked.api.fetch(`/jobs/${id}`)).status === 410);
    await linked.stop();
    await linked.start();
    expect((await linked.api.fetch(`/jobs/${id}`)).status).toBe(410);
  });

  test('A start sets aside entries that are not its own, and removes only incomplete uploads', async () => {
    await using server = await TestServer.start();
    const jobs = path.join(server.dataDirectory, 'jobs');
    await server.stop();
    for (const name of ['thesis', 'lost+found', '0123456789AB']) {
      mkdirSync(path.join(jobs, name));
      writeFileSync(path.join(jobs, name, 'chapter.txt'), name);
    }
    mkdirSync(path.join(server.dataDirectory, 'incoming', 'abcdef012346'));
    mkdirSync(path.join(server.dataDirectory, 'incoming', 'letters'));
    symlinkSync('/etc', path.join(jobs, 'abcdef012347'));
    await server.start();
    expect(aside(server).sort()).toEqual(['0123456789AB', 'abcdef012347', 'letters', 'lost+found', 'thesis']);
    await until('the cut uploads are gone', () => server.jobDirectories().length === 0);
    expect(existsSync('/etc/hostname')).toBe(true);
  });

  test.for([
    ['a directory', mkdirSync],
    ['a FIFO', (file: string) => execFileSync('mkfifo', [file])],
  ] as const)('A start sets aside a usage or expired-jobs list that is %s', async ([, plant]) => {
    await using server = await TestServer.start();
    await server.stop();
    for (const name of ['usage', 'expired']) {
      rmSync(path.join(server.dataDirectory, name), { force: true });
      plant(path.join(server.dataDirectory, name));
    }
    await server.start();
    expect(aside(server).sort()).toEqual(['expired', 'usage']);
    await server.api.run('infer', least.infer);
    expect((await server.api.json<{ usage: unknown[] }>('/usage')).usage).toHaveLength(1);
  });
});
