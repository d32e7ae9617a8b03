import { stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readProfile, writeProfile } from '../../src/client/profiles.js';
import { temporary } from './support/temporary.js';

const lab = { server: 'https://gpu.example.org', token: 'secret', app: 'tissue' };

describe('profiles', () => {
  test('come back as they were written, each under its name', async () => {
    await using directory = await temporary();
    writeProfile(directory.path, 'default', { server: 'http://127.0.0.1:8000' });
    writeProfile(directory.path, 'lab', lab);
    expect(readProfile(directory.path, 'lab')).toEqual(lab);
    expect(readProfile(directory.path, null)).toEqual({ server: 'http://127.0.0.1:8000' });
  });

  test('are for their owner alone', async () => {
    await using directory = await temporary();
    const configuration = path.join(directory.path, 'remote-app');
    const file = writeProfile(configuration, 'lab', lab);
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect((await stat(configuration)).mode & 0o777).toBe(0o700);
  });

  test('are not needed, but a name that nobody wrote is an error that lists the others', async () => {
    await using directory = await temporary();
    expect(readProfile(directory.path, null)).toBeNull();
    writeProfile(directory.path, 'lab', lab);
    expect(() => readProfile(directory.path, 'home')).toThrow(/'home' \(there are: lab\)/);
    expect(() => readProfile(directory.path, 'constructor')).toThrow(/No profile/);
  });

  test.each([['{'], ['[]'], ['{"profiles": {"default": {"server": 8}}}']])(
    'a damaged file, %s, is said to be one',
    async (text) => {
      await using directory = await temporary();
      await writeFile(path.join(directory.path, 'profiles.json'), text);
      expect(() => readProfile(directory.path, null)).toThrow(/profile/);
    },
  );
});
