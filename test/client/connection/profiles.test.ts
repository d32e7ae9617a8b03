import { execFileSync } from 'node:child_process';
import { chmod, open, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { listProfiles, readProfile, writeProfile } from '../../../src/client/connection/profiles.js';
import { UsageError } from '../../../src/client/errors.js';
import { temporary } from '../../support/temporary.js';

const lab = { server: 'https://gpu.example.org', token: 'secret', app: 'tissue' };

describe('profiles', () => {
  test('Profiles that are not in a regular file, or in a very long one, are refused at once', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'profiles.json');
    execFileSync('mkfifo', [file]);
    // A writer, so that code which opens the FIFO by mistake does not block this test.
    await using _writer = await open(file, 'r+');
    expect(() => readProfile(directory.path, null)).toThrow(/it is not a regular file; repair or remove it/);
    await rm(file);
    await writeFile(file, '{"profiles": null}');
    expect(() => readProfile(directory.path, null)).toThrow(
      `The profiles in ${file} cannot be read: it holds no profiles; repair or remove it`,
    );
    await writeFile(file, ' '.repeat(64 * 1024 + 1));
    expect(() => readProfile(directory.path, null)).toThrow(/it is longer than 64 KiB/);
  });

  test('Profiles are readable only by their owner', async () => {
    await using directory = await temporary();
    const configuration = path.join(directory.path, 'remote-app');
    const file = writeProfile(configuration, 'lab', lab);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(configuration)).mode & 0o777).toBe(0o700);
    // Also where others could read it before.
    for (const [each, mode] of [
      [file, 0o644],
      [configuration, 0o755],
    ] as const)
      await chmod(each, mode);
    writeProfile(configuration, 'lab', lab);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(configuration)).mode & 0o777).toBe(0o700);
  });

  test('Profiles are optional, but an unknown name is an error that lists the others', async () => {
    await using directory = await temporary();
    expect(readProfile(directory.path, null)).toBeNull();
    writeProfile(directory.path, 'lab', lab);
    expect(() => readProfile(directory.path, 'home')).toThrow(/'home' \(there are: lab\)/);
    expect(() => readProfile(directory.path, 'constructor')).toThrow(/No profile/);
  });

  test.each([['{'], ['[]'], ['null'], ['{"profiles": {"default": {"server": 8}}}']])(
    'A damaged file, %s, is reported as damaged',
    async (text) => {
      await using directory = await temporary();
      await writeFile(path.join(directory.path, 'profiles.json'), text);
      expect(() => readProfile(directory.path, null)).toThrow(UsageError);
    },
  );

  test('The error of a damaged file does not show its content', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'profiles.json');
    await writeFile(file, '{"profiles": {"lab": {"server": "http://x", "token": "secret" "app"}}}');
    expect(() => readProfile(directory.path, null)).toThrow(/it is not JSON/);
    expect(() => readProfile(directory.path, null)).not.toThrow(/secret/);
    await writeFile(file, '{"profiles": {"lab": {"server": "http://x", "token": 7}, "a\\nb": {}}}');
    expect(() => readProfile(directory.path, 'lab')).toThrow(/The profile 'lab' in .* is damaged/);
    expect(() => readProfile(directory.path, 'no')).toThrow(/there are: lab, a\\x0ab/);
  });

  test('Profiles are listed even if some cannot be read, and a new one is written next to the others', async () => {
    await using directory = await temporary();
    expect(listProfiles(directory.path)).toEqual([]);
    const [server, text] = ['http://x', 'x'];
    const good = {
      plain: { server },
      full: { server, token: text, app: text, ca: text, deidentify: 'full' },
      names: { server, deidentify: 'names' },
    };
    const bad = [{}, { server: '' }, { server, token: '' }, { server, app: 7 }, { server, ca: null }];
    const profiles = { ...good, ...bad, mode: { server, deidentify: 'other' }, none: null };
    const file = path.join(directory.path, 'profiles.json');
    await writeFile(file, JSON.stringify({ profiles }));
    const listed = ['plain', 'full', 'names'].map((name) => ({ name, server }));
    expect(listProfiles(directory.path)).toEqual(listed);
    expect(readProfile(directory.path, 'full')).toEqual(good.full);
    for (const name of ['0', '1', '2', '3', '4', 'mode'])
      expect(() => readProfile(directory.path, name)).toThrow(
        `The profile '${name}' in ${file} is damaged; log in again`,
      );
    expect(writeProfile(directory.path, 'plain', { server: 'http://y' })).toBe(file);
    expect(listProfiles(directory.path)).toEqual([{ name: 'plain', server: 'http://y' }, ...listed.slice(1)]);
    const known = '(there are: 0, 1, 2, 3, 4, plain, full, names, mode, none)';
    expect(() => readProfile(directory.path, 'nams')).toThrow(
      `No profile 'nams' ${known}; did you mean 'names'?`,
    );
    expect(() => readProfile(directory.path, 'laboratory')).toThrow(
      `No profile 'laboratory' ${known}; 'remote-app login' makes one`,
    );
    await writeFile(file, '{"profiles": {}}');
    expect(() => readProfile(directory.path, 'x')).toThrow(
      "No profile 'x' (there are: none); 'remote-app login'",
    );
    expect(readProfile(directory.path, null)).toBeNull();
    await writeFile(file, '[]');
    expect(() => listProfiles(directory.path)).toThrow(
      `The profiles in ${file} cannot be read: it holds no profiles; repair or remove it`,
    );
    expect(() => writeProfile(directory.path, 'x', { server })).toThrow('holds no profiles');
  });

  test('A failure to write profiles is an error', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'file');
    await writeFile(file, '');
    expect(() => writeProfile(path.join(file, 'remote-app'), 'lab', lab)).toThrow(/Cannot|cannot/);
  });
});
