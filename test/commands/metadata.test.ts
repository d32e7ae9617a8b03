import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Config } from '@oclif/core';
import { beforeAll, describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';

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

  test('has a summary, a description, a real example and --json', () => {
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

test('eval is evaluate', async () => {
  await using cli = await Cli.create();
  const { code, stdout } = await cli.run(['eval', '--help']);
  expect([code, stdout]).toEqual([0, expect.stringContaining('--gt')]);
});

test('every command prints one document with --json, also for a wrong command line', async () => {
  await using cli = await Cli.create();
  for (const name of names) {
    const { code, stdout, stderr } = await cli.run([...name.split(' '), '--json', '--nope']);
    expect([name, code, stderr]).toEqual([name, 2, '']);
    expect(JSON.parse(stdout)).toEqual({ error: { message: 'Nonexistent flag: --nope', exit_code: 2 } });
  }
}, 30_000);

test('no help shows a default that is empty', async () => {
  const { commands: all } = await Config.load(fileURLToPath(new URL('../..', import.meta.url)));
  const empty = all.flatMap(({ id, flags }) =>
    Object.values(flags)
      .filter((flag) => flag.type === 'option' && String(flag.default ?? 'none') === '')
      .map(({ name }) => `${id} --${name}`),
  );
  expect(empty).toEqual([]);
});
