import { chmodSync, chownSync, lstatSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { lacks } from '../support/needs.mjs';
import { sharedServer } from '../support/server.js';

const group = 4321;

/** Group and mode of everything below a directory, by name; of one entry for each kind if they are as these. */
function unlike(directory: string, file: number, folder: number): string[] {
  return readdirSync(directory, { recursive: true }).flatMap((each) => {
    const stats = lstatSync(path.join(directory, String(each)));
    const [wanted, mode] = [stats.isDirectory() ? folder : file, stats.mode & 0o7777];
    return stats.gid === group && mode === wanted ? [] : [`${each}: ${stats.gid} ${mode.toString(8)}`];
  });
}

const server = sharedServer();

test.skipIf(lacks('root'))('Results in a directory that a lab shares belong to its group', async () => {
  const before = process.umask(0o002);
  onTestFinished(() => void process.umask(before));
  await using cli = await Cli.create();
  const lab = path.join(cli.directory, 'lab');
  mkdirSync(lab);
  chownSync(lab, -1, group);
  chmodSync(lab, 0o2775);
  writeFileSync(path.join(cli.directory, 'a.nii'), 'a');
  const env = { REMOTE_APP_SERVER: server.url };
  const sent = ['infer', 'a.nii', '--set', 'print=computed', '--output'];
  for (const words of [
    [...sent, 'lab/One'],
    ['infer', '--each', 'a.nii', '--set', 'print=computed', '--output', 'lab/Cases'],
    // A case that fails stays in the list of known jobs.
    ['infer', '--each', 'a.nii', '--set', 'exit=1', '--output', 'lab/Failed'],
  ])
    await cli.run(words, env);

  expect(readdirSync(path.join(lab, 'Cases'))).toEqual(expect.arrayContaining(['cases.csv', 'a']));
  expect(readdirSync(path.join(lab, 'Failed', '.remote-app'))).toContain('jobs.jsonl');
  expect(unlike(lab, 0o664, 0o2775)).toEqual([]);

  // Results keep the profile and the facts of a user to themselves.
  const own = path.join(cli.home, 'remote-app');
  const open = readdirSync(own, { recursive: true }).filter(
    (each) => statSync(path.join(own, String(each))).mode & 0o077,
  );
  expect(open).toEqual([]);
});

test.skipIf(lacks('root'))('A umask that excludes the group is respected', async () => {
  const before = process.umask(0o077);
  onTestFinished(() => void process.umask(before));
  await using cli = await Cli.create();
  writeFileSync(path.join(cli.directory, 'a.nii'), 'a');
  const lab = path.join(cli.directory, 'lab');
  mkdirSync(lab);
  chownSync(lab, -1, group);
  chmodSync(lab, 0o2775);
  const ended = await cli.run(['infer', '--each', 'a.nii', '--output', 'lab'], {
    REMOTE_APP_SERVER: server.url,
  });
  expect(ended.code, ended.stderr).toBe(0);
  expect(unlike(lab, 0o600, 0o2700)).toEqual([]);
});
