import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { list } from '../../support/list.mjs';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { until } from '../../support/until.mjs';

const server = sharedServer({ flags: ['--grace', '600'] });
const { api } = server;

/** Runs shell commands in the output directory of a job; `..` is the job's directory. */
const shell = (...commands: string[]) => ({
  ...least.infer,
  ...steps(...commands.map((command) => `shell=${command}`)),
});

const listening =
  'require("net").createServer().listen(process.argv[1], () => process.kill(process.pid, "SIGKILL"))';
/** Makes a socket of the name that follows. A process that is killed does not remove its socket. */
const makeSocket = `${process.execPath} -e '${listening}'`;

let victims = 0;

/** A directory of somebody else's with a file in it. */
function victim(): { directory: string; file: string } {
  victims += 1;
  const directory = path.join(server.scratch, `victim-${victims}`);
  const file = path.join(directory, 'secret.txt');
  mkdirSync(directory);
  writeFileSync(file, 'secret');
  return { directory, file };
}

describe('a job that replaces files of the server', () => {
  const names = list`log exit.json exit.json.reserved runner.json result.zip result.zip.partial
    job.json.reserved`;
  test.for(names)('A link named %s is not written through', async (name) => {
    const { directory, file } = victim();
    await api.run('infer', shell(`rm -rf ../${name}; ln -s ${file} ../${name}`));
    expect([readFileSync(file, 'utf8'), readdirSync(directory)]).toEqual(['secret', ['secret.txt']]);
  });

  test.for(['log', 'exit.json.reserved', 'job.json.reserved'])(
    'A hard link to another file, %s, is not written to',
    async (name) => {
      const { file } = victim();
      await api.run('infer', shell(`rm -rf ../${name}; ln ${file} ../${name}`));
      expect(readFileSync(file, 'utf8')).toBe('secret');
    },
  );

  test('A link that replaces the output is not followed', async () => {
    const { directory } = victim();
    const { view, id } = await api.run('infer', shell(`cd ..; rm -r Output; ln -s ${directory} Output`));
    expect(view).toMatchObject({
      status: 'error',
      error: expect.stringContaining('replaced its output directory'),
    });
    expect(await (await api.fetch(`/jobs/${id}/result`)).text()).not.toContain('secret');
  });

  test('A removed output is explained in a sentence', async () => {
    const { view } = await api.run('infer', shell('cd ..; rm -r Output'));
    expect(view).toMatchObject({
      status: 'error',
      error: expect.stringContaining('removed its output directory'),
    });
  });

  test('The result is packed while it is sent if its archive cannot be read', async () => {
    await using ordinary = await TestServer.start({ asOrdinaryUser: true });
    const { id } = await ordinary.api.run('infer', { ...least.infer, ...steps('write=a.txt:mine') });
    chmodSync(path.join(ordinary.jobDirectory(id), 'result.zip'), 0);
    const files = await ordinary.api.result(id);
    expect([...files.keys()].sort()).toEqual(['a.txt', 'probe.json']);
    expect(String(files.get('a.txt'))).toBe('mine');
  });

  test('The reserved files can be removed, and the end is still recorded', async () => {
    const { view } = await api.run(
      'infer',
      shell('rm -f ../exit.json.reserved; mkdir ../exit.json.reserved'),
    );
    expect(view).toMatchObject({ status: 'done', error: null });
  });

  test.for(['log', 'exit.json', 'exit.json.reserved', 'runner.json', 'run.json', 'job.json'])(
    'A FIFO or a directory named %s blocks nothing',
    async (name) => {
      for (const make of ['mkfifo', 'mkdir']) {
        const { job_id: id } = await api.accepted('infer', shell(`rm -rf ../${name}; ${make} ../${name}`));
        const view = await until('it has ended', async () => {
          const now = await api.job(id);
          return now.finished_at === null ? null : now;
        });
        expect(['done', 'error']).toContain(view.status);
        expect(await api.json('/health')).toEqual({ status: 'ok' });
      }
    },
  );
});

describe('something else in place of a result', () => {
  const scripted = sharedServer();
  const { api } = scripted;

  test.for([
    ['a link to a file', (file: string) => `ln -s ${file}`],
    ['a link to a directory', (file: string) => `ln -s ${path.dirname(file)}`],
    ['a link to nothing', (file: string) => `ln -s ${file}.gone`],
    ['an empty directory', () => 'mkdir'],
    ['a directory with a link in it', (file: string) => `mkdir result.zip; ln -s ${file}`],
    ['a FIFO', () => 'mkfifo'],
    ['a socket', () => makeSocket],
  ] as const)(
    'If the archive is replaced by %s, it is left alone, and the result is packed while it is sent',
    async ([, makerFor]) => {
      const { file, directory } = victim();
      const neighbour = (await api.run('infer', least.infer)).id;
      const neighbours = readFileSync(path.join(scripted.jobDirectory(neighbour), 'result.zip'));
      const { id } = await api.run('infer', { ...least.infer, ...steps('write=a.txt:mine') });
      await api.run(
        'infer',
        shell(`cd ${scripted.jobDirectory(id)}; rm result.zip; ${makerFor(file)} result.zip`),
      );
      const replaced = () => {
        const stats = lstatSync(path.join(scripted.jobDirectory(id), 'result.zip'));
        return { isFile: stats.isFile(), ino: stats.ino, mode: stats.mode, mtimeMs: stats.mtimeMs };
      };
      const before = replaced();
      expect(before.isFile).toBe(false);
      expect((await api.fetch(`/jobs/${id}/result`, { method: 'HEAD' })).status).toBe(200);
      for (const files of [await api.result(id), await api.result(id)]) {
        expect([...files.keys()].sort()).toEqual(['a.txt', 'probe.json']);
        expect(String(files.get('a.txt'))).toBe('mine');
      }
      expect(replaced()).toEqual(before);
      expect([readFileSync(file, 'utf8'), readdirSync(directory)]).toEqual(['secret', ['secret.txt']]);
      const kept = await api.fetch(`/jobs/${neighbour}/result`);
      expect(Buffer.from(await kept.arrayBuffer()).equals(neighbours)).toBe(true);
    },
  );
});

describe('a job that has expired', () => {
  test('A job that has expired is removed completely, however deep its tree is', async () => {
    const script =
      'i=0; while [ $i -lt 40 ]; do n=$(printf %0200d 7); mkdir $n; cd $n; i=$((i+1)); done; touch x';
    const clock = new TestClock();
    await using brief = await TestServer.start({ clock });
    const { id } = await brief.api.run('infer', shell(script));
    clock.pass(120);
    await until('it is removed', () => !existsSync(brief.jobDirectory(id)));
    await until(
      'nothing is left in the trash',
      () => readdirSync(path.join(brief.dataDirectory, 'trash')).length === 0,
    );
  });
});
