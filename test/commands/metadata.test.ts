import { readdirSync, readFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Config } from '@oclif/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { list } from '../support/list.mjs';

interface Flag {
  readonly helpValue?: string;
  readonly parse: (input: string, context: object, options: { name: string }) => Promise<string>;
}

const commands = fileURLToPath(new URL('../../src/commands', import.meta.url));
const names = readdirSync(commands, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.replace(/\.ts$/, '').replace('/', ' '))
  .filter((name) => name !== 'serve');

describe.each(names)('%s', (name) => {
  let config: Config;
  beforeAll(async () => {
    config = await Config.load(fileURLToPath(new URL('../..', import.meta.url)));
  });

  test('The command has a summary, a description, a real example and --json', () => {
    const command = config.findCommand(name.replace(' ', ':'), { must: true });
    expect(command.summary).toBeTruthy();
    expect(command.description).toBeTruthy();
    const examples = command.examples?.map((each) => (typeof each === 'string' ? each : each.command)) ?? [];
    expect(examples.length).toBeGreaterThan(0);
    const called = new RegExp(`<%= config.bin %> (${[name, ...(command.aliases ?? [])].join('|')})\\b`);
    for (const example of examples) expect(example).toMatch(called);
    expect(Object.keys(command.flags)).toContain('json');
  });
});

test('The help lists the commands in groups, and each command once', async () => {
  await using cli = await Cli.create();
  const { stdout } = await cli.run(['--help']);
  const sections = [...stdout.matchAll(/^([A-Z ]+)\n((?: {2}.*\n)+)/gm)].map(
    ([, title, body = '']) =>
      [title, [...body.matchAll(/^ {2}([a-z-]+) /gm)].map(([, name]) => name)] as const,
  );
  const groups = Object.fromEntries(sections.slice(-4));
  expect(Object.keys(groups)).toEqual(['RUN AN APP', 'JOBS', 'SERVER AND APPS', 'ADMIN']);
  expect(groups['RUN AN APP']?.[0]).toBe('infer');
  expect(groups.ADMIN).toContain('serve');
  const all = [...new Set([...names.map((name) => name.replace(/ .*/, '')), 'serve'])].sort();
  expect(Object.values(groups).flat().sort()).toEqual(all);
});

test('The help of a command begins with examples, and that of infer lists the most common flags first', async () => {
  await using cli = await Cli.create();
  for (const name of ['infer', 'token create', 'serve']) {
    const { stdout } = await cli.run([...name.split(' '), '--help']);
    expect(stdout).toMatch(/^[^\n]+\n\nEXAMPLES\n {2}\$ remote-app /);
    expect(stdout).toMatch(
      new RegExp(`\\nUSAGE\\n {2}\\$ remote-app ${name}[A-Z\\[\\]. ]* \\[FLAG...\\]\\n`),
    );
  }
  const { stdout } = await cli.run(['infer', '--help']);
  const sections = stdout.split(/\n(?=[A-Z ]+\n)/);
  const flags = sections.find((each) => each.startsWith('FLAGS\n')) ?? '';
  const named = [...flags.matchAll(/^ {2,6}(?:-\w, )?--(?:\[no-\])?([\w-]+)/gm)].map(([, name]) => name);
  expect(named).toEqual(list`app inputs gpu cpu set output detach`);
  const rest = sections.slice(sections.indexOf(flags) + 1).map((each) => each.slice(0, each.indexOf('\n')));
  expect(rest).toEqual([
    'APP FLAGS',
    'JOB FLAGS',
    'PRIVACY FLAGS',
    'EACH FLAGS',
    'SERVER FLAGS',
    'GLOBAL FLAGS',
  ]);
});

test('The page of the command line describes the error document once', () => {
  const page = readFileSync(new URL('../../docs/cli.md', import.meta.url), 'utf8');
  expect(page.match(/error\.exit_code/g)).toHaveLength(1);
});

/** Files of the app, named by their place in it; and what is read as a path later. */
const noPaths = list`prediction-file evaluation-file uncertainty-file config-file dataset bind bind-rw`;

test.each([...names, 'serve'])("%s expands '~/' to the home directory in each path", async (name) => {
  const { default: command } = await import(
    pathToFileURL(path.join(commands, `${name.replace(' ', '/')}.ts`)).href
  );
  const paths = Object.entries<Flag>({ ...command.baseFlags, ...command.flags }).filter(
    ([flag, { helpValue }]) => /^(FILE|DIR|PATH)$/.test(String(helpValue)) && !noPaths.includes(flag),
  );
  for (const [flag, { parse }] of paths) {
    expect([flag, await parse('~/x', {}, { name: flag })]).toEqual([flag, path.join(os.homedir(), 'x')]);
    await expect(parse('~somebody/x', {}, { name: flag }), flag).rejects.toThrow("only '~/' stands for");
  }
});

test('Eval is an alias of evaluate', async () => {
  await using cli = await Cli.create();
  const { code, stdout } = await cli.run(['eval', '--help']);
  expect([code, stdout]).toEqual([0, expect.stringContaining('--gt')]);
});

test('Every command prints one document with --json, even for a usage error', async () => {
  await using cli = await Cli.create();
  const runs = names.map(async (name) => {
    const { code, stdout, stderr } = await cli.run([...name.split(' '), '--json', '--nope']);
    expect([name, code, stderr]).toEqual([name, 2, '']);
    expect(JSON.parse(stdout)).toEqual({ error: { message: 'Nonexistent flag: --nope', exit_code: 2 } });
  });
  await Promise.all(runs);
});

test('No help shows an empty default', async () => {
  const { commands: all } = await Config.load(fileURLToPath(new URL('../..', import.meta.url)));
  const empty = all.flatMap(({ id, flags }) =>
    Object.values(flags)
      .filter((flag) => flag.type === 'option' && String(flag.default ?? 'none') === '')
      .map(({ name }) => `${id} --${name}`),
  );
  expect(empty).toEqual([]);
});
