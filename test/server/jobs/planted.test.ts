import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { until } from '../../../support/until.mjs';
import { least, steps } from '../../support/form.js';
import { sharedServer, TestServer } from '../../support/server.js';

const server = sharedServer({ flags: ['--grace', '600'] });
const { api } = server;

/** Runs shell commands in the output directory of a job; `..` is the job's directory. */
const shell = (...commands: string[]) => ({
  ...least.infer,
  ...steps(...commands.map((command) => `shell=${command}`)),
});

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
  test.for([
    'log',
    'exit.json',
    'exit.json.reserved',
    'runner.json',
    'result.zip',
    'result.zip.partial',
    'job.json.reserved',
  ])('a link named %s is not written through', async (name) => {
    const { directory, file } = victim();
    await api.run('infer', shell(`rm -rf ../${name}; ln -s ${file} ../${name}`));
    expect([readFileSync(file, 'utf8'), readdirSync(directory)]).toEqual(['secret', ['secret.txt']]);
  });

  test.for(['log', 'exit.json.reserved', 'job.json.reserved'])(
    'a hard link to another file, %s, is not written to',
    async (name) => {
      const { file } = victim();
      await api.run('infer', shell(`rm -rf ../${name}; ln ${file} ../${name}`));
      expect(readFileSync(file, 'utf8')).toBe('secret');
    },
  );

  test('a link that replaces the output is not followed', async () => {
    const { directory } = victim();
    const { view, id } = await api.run('infer', shell(`cd ..; rm -r Output; ln -s ${directory} Output`));
    expect(view).toMatchObject({
      status: 'error',
      error: expect.stringContaining('replaced its output directory'),
    });
    expect(await (await api.fetch(`/jobs/${id}/result`)).text()).not.toContain('secret');
  });

  test('a removed output is explained in a sentence', async () => {
    const { view } = await api.run('infer', shell('cd ..; rm -r Output'));
    expect(view).toMatchObject({
      status: 'error',
      error: expect.stringContaining('removed its output directory'),
    });
  });

  test('a link that replaces the packed result is not sent', async () => {
    const { file } = victim();
    const { id } = await api.run('infer', least.infer);
    await api.run('infer', shell(`ln -sf ${file} ${path.join(server.jobDirectory(id), 'result.zip')}`));
    const response = await api.fetch(`/jobs/${id}/result`);
    expect([response.status, (await response.text()).includes('secret')]).toEqual([500, false]);
  });

  test('the reserved files can be removed: the end is recorded all the same', async () => {
    const { view } = await api.run(
      'infer',
      shell('rm -f ../exit.json.reserved; mkdir ../exit.json.reserved'),
    );
    expect(view).toMatchObject({ status: 'done', error: null });
  });

  test('a FIFO that replaces its exit.json blocks nothing', async () => {
    const { view } = await api.run('infer', shell('rm -f ../exit.json* ; mkfifo ../exit.json'));
    expect(view.status).toBe('done');
    expect(await api.json('/health')).toEqual({ status: 'ok' });
  });
});

describe('a job that has expired', () => {
  test('is removed completely, however deep its tree is', async () => {
    const script =
      'i=0; while [ $i -lt 40 ]; do n=$(printf %0200d 7); mkdir $n; cd $n; i=$((i+1)); done; touch x';
    await using brief = await TestServer.start({ flags: ['--grace', '1'] });
    const { id } = await brief.api.run('infer', shell(script));
    await until('it is removed', () => !existsSync(brief.jobDirectory(id)));
    await until(
      'nothing is left in the trash',
      () => readdirSync(path.join(brief.dataDirectory, 'trash')).length === 0,
    );
  });
});
