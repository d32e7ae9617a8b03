import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  dropReserve,
  editJsonFile,
  readJsonFile,
  readReserve,
  removePartials,
  reserveJsonFile,
  saveJsonFile,
  writeJsonFile,
  writeReservedJson,
  writeTextFile,
} from '../../src/files/whole-file.js';
import { list } from '../support/list.mjs';
import { plant, temporary } from '../support/temporary.js';

const modeOf = (file: string) => statSync(file).mode & 0o777;

test('A file is replaced as a whole, and is readable only by the current user unless another mode is requested', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, { old: 'a longer text' });
  chmodSync(at('old'), 0o644);
  writeTextFile(at('old'), 'new');
  writeTextFile(at('unkept'), 'text', { isKept: false });
  writeTextFile(at('open'), 'text', { mode: 0o640 });
  writeTextFile(at('like'), 'text', { like: { ...statSync(root.path), mode: 0o100606 } });
  writeTextFile(at('first'), 'text', { like: 'new' });
  writeTextFile(at('new'), 'text', { like: 'new' });
  expect(() => writeTextFile(at('new'), 'other', { like: 'new' })).toThrow('EEXIST');
  expect(
    readdirSync(root.path).map((name) => [name, readFileSync(at(name), 'utf8'), modeOf(at(name))]),
  ).toEqual([
    ['first', 'text', 0o600],
    ['like', 'text', 0o606],
    ['new', 'text', 0o600],
    ['old', 'new', 0o600],
    ['open', 'text', 0o640 & ~process.umask()],
    ['unkept', 'text', 0o600],
  ]);
});

test('A file that cannot be moved into place leaves no temporary file behind', async () => {
  await using root = await temporary();
  await plant(root.path, { 'taken/file': '' });
  expect(() => writeTextFile(path.join(root.path, 'taken'), 'text')).toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
  await expect(saveJsonFile(path.join(root.path, 'taken'), {})).rejects.toThrow(/EISDIR|ENOTEMPTY|EEXIST/);
  expect(readdirSync(root.path)).toEqual(['taken']);
  expect(() => writeTextFile(path.join(root.path, 'missing', 'file'), 'text')).toThrow('ENOENT');
});

test('A link with the name of the temporary file is not written through', async () => {
  await using root = await temporary();
  await plant(root.path, { secret: 'secret' });
  symlinkSync('secret', path.join(root.path, `file.${process.pid}.partial`));
  writeTextFile(path.join(root.path, 'file'), 'text');
  expect(readFileSync(path.join(root.path, 'secret'), 'utf8')).toBe('secret');
  expect(lstatSync(path.join(root.path, 'file')).isFile()).toBe(true);
  expect(readdirSync(root.path)).toEqual(['file', 'secret']);
});

test('A partial file left by a killed process is removed, and nothing else', async () => {
  await using root = await temporary();
  await plant(root.path, {
    'a.json': '',
    'a.json.12.partial': '',
    'a.json.345.partial': '',
    'a.json.x.partial': '',
    'a.json.12.partial.gz': '',
    'a.json.partial': '',
    'a.jsonx12.partial': '',
    'b.json.12.partial': '',
  });
  removePartials(path.join(root.path, 'a.json'));
  expect(readdirSync(root.path)).toEqual(list`a.json a.json.12.partial.gz a.json.partial a.json.x.partial
    a.jsonx12.partial b.json.12.partial`);
});

test('A JSON file is saved and read; a missing one is undefined, and a broken one an error', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await saveJsonFile(at('kept.json'), { a: [1] });
  await saveJsonFile(at('kept.json'), { a: [2] });
  await saveJsonFile(at('unkept.json'), 'text', false);
  expect(readFileSync(at('kept.json'), 'utf8')).toBe('{\n  "a": [\n    2\n  ]\n}\n');
  expect([readJsonFile(at('kept.json')), readJsonFile(at('unkept.json')), modeOf(at('kept.json'))]).toEqual([
    { a: [2] },
    'text',
    0o600,
  ]);
  expect(readJsonFile(at('missing.json'))).toBeUndefined();
  await plant(root.path, { 'broken.json': '{' });
  expect(() => readJsonFile(at('broken.json'))).toThrow(SyntaxError);
  expect(() => readJsonFile(root.path)).toThrow('it is not a regular file');
  expect(readdirSync(root.path)).toEqual(['broken.json', 'kept.json', 'unkept.json']);
});

test('An edited file is readable only by the current user, and keeps its mode only on request', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'a.json');
  const given: unknown[] = [];
  const edit = (value: unknown, keepsAccess: boolean) =>
    editJsonFile(
      file,
      (before) => {
        given.push(before);
        return value;
      },
      { keepsAccess },
    );
  expect(edit(1, true)).toBe('done');
  expect([readJsonFile(file), modeOf(file)]).toEqual([1, 0o600]);
  chmodSync(file, 0o644);
  expect(edit(2, true)).toBe('done');
  expect([readJsonFile(file), modeOf(file)]).toEqual([2, 0o644]);
  expect(edit(3, false)).toBe('done');
  expect([readJsonFile(file), modeOf(file)]).toEqual([3, 0o600]);
  expect(given).toEqual([null, file, file]);
});

test('Editing a link edits its target, and a failed edit changes nothing', async () => {
  await using root = await temporary();
  const at = (name: string) => path.join(root.path, name);
  await plant(root.path, { 'real/a.json': '1' });
  symlinkSync('real/a.json', at('link.json'));
  expect(editJsonFile(at('link.json'), () => 2, { keepsAccess: false })).toBe('done');
  expect([readlinkSync(at('link.json')), readJsonFile(at('real/a.json'))]).toEqual(['real/a.json', 2]);
  const fails = () => {
    throw new Error('no');
  };
  expect(() => editJsonFile(at('link.json'), fails, { keepsAccess: false })).toThrow('no');
  expect(() => editJsonFile(at('new.json'), fails, { keepsAccess: false })).toThrow('no');
  expect(() => editJsonFile(at('missing/a.json'), () => 1, { keepsAccess: false })).toThrow('ENOENT');
  expect(readJsonFile(at('real/a.json'))).toBe(2);
  expect([readdirSync(root.path), readdirSync(at('real'))]).toEqual([['link.json', 'real'], ['a.json']]);
});

test('A file that another command makes at the same time is edited, and not overwritten', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'a.json');
  const given: unknown[] = [];
  const outcome = editJsonFile(
    file,
    (before) => {
      given.push(before);
      if (before === null) writeFileSync(file, '{"theirs":1}');
      return { ...(readJsonFile(file) as object), ours: 2 };
    },
    { keepsAccess: false },
  );
  expect([outcome, given, readJsonFile(file)]).toEqual(['done', [null, file], { theirs: 1, ours: 2 }]);
  // Nothing can be made where a link leads nowhere.
  symlinkSync('nowhere', path.join(root.path, 'dangling'));
  let tries = 0;
  const count = () => {
    tries += 1;
    return tries;
  };
  expect([editJsonFile(path.join(root.path, 'dangling'), count, { keepsAccess: false }), tries]).toEqual([
    'replaced',
    5,
  ]);
});

test('A file is locked while it is edited, and unlocked after a failed edit', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'a.json');
  writeJsonFile(file, 1);
  const isFree = () => execFileSync('flock', ['-n', file, 'echo', 'free'], { encoding: 'utf8' });
  const fails = () => {
    throw new Error('no');
  };
  expect(() => editJsonFile(file, fails, { keepsAccess: false })).toThrow('no');
  expect(isFree()).toBe('free\n');
  let inside = 'free';
  editJsonFile(
    file,
    () => {
      try {
        isFree();
      } catch {
        inside = 'locked';
      }
      return 3;
    },
    { keepsAccess: false },
  );
  expect(inside).toBe('locked');
});

test('Reserved space has the given size and text, is used once, and can be released', async () => {
  await using root = await temporary();
  const file = path.join(root.path, 'a.json');
  const reserved = `${file}.reserved`;
  writeFileSync(reserved, 'old');
  reserveJsonFile(file, 100, '{"a":0}');
  expect(readFileSync(reserved, 'utf8')).toBe('{"a":0}'.padEnd(100));
  expect(readReserve(file, 100)).toBe('{"a":0}'.padEnd(100));
  expect(() => readReserve(file, 99)).toThrow('is longer than 99 bytes');
  writeReservedJson(file, { a: 1 });
  expect([readFileSync(file, 'utf8'), existsSync(reserved)]).toEqual(['{\n  "a": 1\n}\n', false]);
  expect(() => writeReservedJson(file, { a: 2 })).toThrow('ENOENT');
  expect(readJsonFile(file)).toEqual({ a: 1 });
  reserveJsonFile(file, 10);
  expect(readFileSync(reserved, 'utf8')).toBe(' '.repeat(10));
  dropReserve(file);
  dropReserve(file);
  expect(readdirSync(root.path)).toEqual(['a.json']);
});
