import { mkdirSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { keepCommand } from '../../../src/cli/jobs/index.js';
import { commandAgain, commandWords } from '../../../src/cli/submit/earlier-commands.js';
import type { Word } from '../../../src/cli/submit/path-order.js';
import { temporary } from '../../support/temporary.js';

const arg = (input: string): Word => ({ type: 'arg', input });
const flag = (name: string, input: string): Word => ({ type: 'flag', flag: name, input });

const booleans = new Set(['force', 'detach', 'tta', 'show']);

test('A command is stored with its arguments and its settings from the environment and the profile, and without secrets', () => {
  const words = [
    ...[arg('scans'), flag('token', 'secret'), flag('json', '--json'), flag('server', 'http://typed')],
    ...[flag('force', '--force'), flag('tta', '--no-tta'), flag('output', 'out'), arg('-odd.nii')],
  ];
  const settled = { server: 'http://a', profile: undefined, app: 'tissue' };
  expect(commandWords(words, settled, booleans)).toEqual([
    { flag: 'server', text: '--server=http://a' },
    { flag: 'app', text: '--app=tissue' },
    { flag: null, text: 'scans' },
    { flag: 'force', text: '--force' },
    { flag: 'tta', text: '--no-tta' },
    { flag: 'output', text: '--output=out' },
    { flag: null, text: './-odd.nii' },
  ]);
});

const start = process.cwd();
afterEach(() => process.chdir(start));

test('A stored command is repeated in its directory, and newly typed words replace the earlier ones', async () => {
  await using home = await temporary();
  const directory = path.join(home.path, 'scans of today');
  mkdirSync(directory);
  const given = [arg('a b.nii'), flag('detach', '--detach'), flag('gpu', '0'), flag('force', '--force')];
  const settled = { server: 'http://a', profile: 'lab' };
  const words = commandWords([...given, flag('output', 'out')], settled, booleans);
  keepCommand(home.path, 'aa01bc23de45', { command: 'infer', directory, words });
  const again = (typed: readonly Word[], output?: string) => {
    process.chdir(home.path);
    const { command, argv, shown } = commandAgain(home.path, 'aa01bc23de45', typed, booleans, output);
    expect([command, process.cwd()]).toEqual(['infer', directory]);
    return { argv, shown };
  };
  const all = [
    '--server=http://a',
    '--profile=lab',
    'a b.nii',
    '--detach',
    '--gpu=0',
    '--force',
    '--output=out',
  ];
  expect(again([])).toEqual({
    argv: all,
    shown: `infer --server=http://a --profile=lab 'a b.nii' --detach --gpu=0 --force --output=out`,
  });
  const without = (...words: string[]) => all.filter((each) => !words.includes(each));
  // The directory of a result is relative to where it is typed.
  expect(again([arg('aa01bc23de45'), flag('output', 'new')], 'new').argv).toEqual([
    `--output=${path.join(home.path, 'new')}`,
    ...without('--output=out', '--detach'),
  ]);
  expect(again([flag('output', '-')], '-').argv[0]).toBe('--output=-');
  expect(again([flag('detach', '--detach')]).argv).toEqual([
    '--detach',
    ...without('--detach', '--output=out', '--force'),
  ]);
  expect(again([flag('force', '--force')]).argv).toEqual(['--force', ...without('--force', '--detach')]);
  expect(again([flag('server', 'http://b'), flag('json', '--json')]).argv).toEqual([
    '--server=http://b',
    ...without('--server=http://a', '--profile=lab'),
  ]);
  expect(again([flag('profile', 'b')]).argv).toEqual([
    '--profile=b',
    ...without('--server=http://a', '--profile=lab'),
  ]);
  // Of a pattern that a shell has expanded to more than is kept.
  const many = [{ flag: null, text: 'x'.repeat(1 << 20) }];
  keepCommand(home.path, 'bb01bc23de45', { command: 'infer', directory, words: many });
  expect(() => commandAgain(home.path, 'bb01bc23de45', [], booleans, undefined)).toThrow(
    'How job bb01bc23de45 was submitted is not known here.',
  );
  const { argv, shown } = again([flag('token', 'secret')]);
  expect([argv[0], shown]).toEqual(['--token=secret', expect.not.stringContaining('secret')]);
  process.chdir(home.path);
  rmdirSync(directory);
  expect(() => again([])).toThrow(
    `Job aa01bc23de45 was submitted in '${directory}', which cannot be entered: no such file or directory`,
  );
});
