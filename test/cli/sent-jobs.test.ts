import { utimesSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { keepCommand, keptCommand, namedOrLast, type SentCommand } from '../../src/cli/jobs/sent-jobs.js';
import { sentJobFile } from '../../src/client/sent-jobs.js';
import { memoryReporter } from '../client/support/connect.js';
import { temporary } from '../support/temporary.js';

async function home(): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  return root.path;
}

const command = (server: string | null, directory = process.cwd()): SentCommand => ({
  command: 'infer',
  directory,
  words: [
    { flag: null, text: 'ct.nii' },
    ...(server === null ? [] : [{ flag: 'server', text: `--server=${server}` }]),
  ],
});

test('A command is stored unchanged, unless it is too long', async () => {
  const config = await home();
  keepCommand(config, 'aa', command('http://a'));
  expect(keptCommand(config, 'aa')).toEqual(command('http://a'));
  const long = { ...command(null), words: [{ flag: null, text: 'x'.repeat(1 << 20) }] };
  keepCommand(config, 'bb', long);
  expect(() => keptCommand(config, 'bb')).toThrow(
    'How job bb was submitted is not known here. A job of a run with --each is repeated by giving that command again; ' +
      "others are known on the machine that sent them, the last 200; 'remote-app status bb' says what the server knows",
  );
});

test.each([
  '{',
  'null',
  '{}',
  '{"command": 1, "directory": "/", "words": []}',
  '{"command": "infer", "directory": 1, "words": []}',
  '{"command": "infer", "directory": "/", "words": {}}',
  '{"command": "infer", "directory": "/", "words": [null]}',
  '{"command": "infer", "directory": "/", "words": [{"flag": null}]}',
])('A file with %s is damaged', async (text) => {
  const config = await home();
  keepCommand(config, 'aa', command(null));
  const file = sentJobFile(config, 'aa', 'command');
  writeFileSync(file, text);
  expect(() => keptCommand(config, 'aa')).toThrow(
    `'${file}' cannot be read: it is damaged; submit the job again by its own command`,
  );
});

test('A command uses the named job, or the last one sent from this directory to this server', async () => {
  const config = await home();
  const reporter = memoryReporter();
  const meant = (named?: string, server = 'http://a:1') => namedOrLast(named, config, { server }, reporter);
  const none = "No job was sent to http://a:1 from this directory: name one; 'remote-app jobs' lists them";
  expect(() => meant()).toThrow(none);
  const sent: [id: string, command: SentCommand][] = [
    ['old', command('http://a:1')],
    ['new', command('http://a:1/')],
    ['of-b', command('http://b:1')],
    ['elsewhere', command('http://a:1', path.join(config, 'elsewhere'))],
    ['without-a-server', command(null)],
  ];
  for (const [at, [id, each]] of sent.entries()) {
    keepCommand(config, id, each);
    utimesSync(sentJobFile(config, id, 'command'), 1e9 + at, 1e9 + at);
  }
  // The newest, which says nothing.
  keepCommand(config, 'damaged', command('http://a:1'));
  writeFileSync(sentJobFile(config, 'damaged', 'command'), '{');
  expect([meant(), meant('named'), meant(undefined, 'http://b:1')]).toEqual(['new', 'named', 'of-b']);
  expect(reporter.notes).toEqual([
    'Job new, the last one sent from here',
    'Job of-b, the last one sent from here',
  ]);
});
