import { execFileSync } from 'node:child_process';
import { open, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { checkToken, loadSettings, resolveSettings } from '../../src/cli/command/settings.js';
import { writeProfile } from '../../src/client/connection/profiles.js';
import { defaultServer } from '../../src/contract/defaults.js';
import { temporary } from '../support/temporary.js';

const byProfile = "the profile 'default'";
const lab = { server: 'https://gpu.example.org/', token: 'profile-token', app: 'tissue' };

describe('settings', () => {
  test('Settings come from flags and environment, then from the profile, then from the defaults', () => {
    expect(resolveSettings({}, null)).toEqual({
      server: defaultServer,
      isDefault: true,
      token: undefined,
      app: undefined,
    });
    expect(resolveSettings({}, lab)).toEqual({ ...lab, isDefault: false, appNamedBy: byProfile });
    const careful = { ...lab, ca: '/lab.pem', deidentify: 'full' } as const;
    expect(resolveSettings({}, careful)).toEqual({ ...careful, isDefault: false, appNamedBy: byProfile });
    // What a profile says of what leaves counts for other servers too; its certificates do not.
    expect(resolveSettings({ server: 'http://a:1' }, careful)).toEqual({
      server: 'http://a:1',
      isDefault: false,
      deidentify: 'full',
    });
    expect(resolveSettings({ ca: '/given.pem' }, careful).ca).toBe('/given.pem');
    expect(resolveSettings({ ca: '/env.pem', profile: 'lab' }, lab, new Set(['profile'])).ca).toBe(
      '/env.pem',
    );
    expect(resolveSettings({ profile: 'lab' }, lab).appNamedBy).toBe("the profile 'lab'");
    expect(resolveSettings({ app: 'a' }, lab).appNamedBy).toBe('REMOTE_APP_APP');
    expect(resolveSettings({ app: 'a' }, lab, new Set(['app'])).appNamedBy).toBeUndefined();
    expect(resolveSettings({ server: 'http://a:1', token: 't' }, lab)).toMatchObject({
      server: 'http://a:1',
      token: 't',
    });
  });

  test("A profile's token goes to the profile's server and to no other", () => {
    expect(resolveSettings({ server: 'https://other.example.org' }, lab)).toEqual({
      server: 'https://other.example.org',
      isDefault: false,
      token: undefined,
      app: undefined,
    });
    expect(resolveSettings({ server: 'https://gpu.example.org' }, lab).token).toBe('profile-token');
  });

  test('A profile on the command line wins over the server and the token of the environment', () => {
    const environment = { server: 'https://other.example.org', token: 'for-other', app: 'other' };
    const typed = (...names: string[]) => new Set(['profile', ...names]);
    expect(resolveSettings(environment, lab, typed())).toEqual({
      ...lab,
      isDefault: false,
      appNamedBy: byProfile,
    });
    // A server without a token does not get the token of another server.
    const open = { server: 'http://127.0.0.1:8000' };
    expect(resolveSettings(environment, open, typed())).toEqual({
      ...open,
      isDefault: false,
      token: undefined,
      app: 'other',
      appNamedBy: 'REMOTE_APP_APP',
    });
    expect(resolveSettings(environment, lab, typed('token', 'app'))).toEqual({
      ...environment,
      server: lab.server,
      isDefault: false,
    });
    expect(resolveSettings(environment, lab, typed('server'))).toEqual({
      server: environment.server,
      isDefault: false,
      token: undefined,
      app: 'other',
      appNamedBy: 'REMOTE_APP_APP',
    });
    // Other variables of the environment win over the profile that the environment names.
    expect(resolveSettings(environment, lab)).toEqual({
      ...environment,
      isDefault: false,
      appNamedBy: 'REMOTE_APP_APP',
    });
  });

  test('A token file wins over a token, and is read without its line break', async () => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'token');
    await writeFile(file, 'from-file\n');
    expect(resolveSettings({ 'token-file': file, token: 'from-env' }, lab).token).toBe('from-file');
    expect(() => resolveSettings({ 'token-file': `${file}x` }, null)).toThrow(
      `The token file '${file}x' cannot be read: no such file or directory (ENOENT)`,
    );
    await writeFile(file, 'two words');
    expect(() => resolveSettings({ 'token-file': file }, null)).toThrow(
      expect.objectContaining({
        message: `The token of ${file} contains characters that are not allowed in a token`,
      }),
    );
  });

  test.each(['', ' \n', '\ufeff'])('An empty token file is refused: %j', async (content) => {
    await using directory = await temporary();
    const file = path.join(directory.path, 'token');
    await writeFile(file, content);
    const settings = () => resolveSettings({ 'token-file': file, token: 'from-env' }, null);
    expect(settings).toThrow(/^The token file '.*token' is empty/);
  });

  test('A token file is a regular file, or what the shell opened', async () => {
    const read = (file: string) => resolveSettings({ 'token-file': file }, null).token;
    expect(() => read('/dev/null')).toThrow(/it is not a regular file/);
    expect(() => read('/dev/zero')).toThrow("'/dev/zero' cannot be read: it is not a regular file");
    await using directory = await temporary();
    const file = path.join(directory.path, 'token');
    execFileSync('mkfifo', [file]);
    expect(() => read(file)).toThrow(/it is not a regular file/);
    await rm(file);
    await writeFile(file, 'from-shell\n');
    await using opened = await open(file);
    expect(read(`/dev/fd/${opened.fd}`)).toBe('from-shell');
  });

  test('A token that cannot be sent in a header is refused, and the message does not show it', () => {
    expect(() => checkToken('sec ret', '--token')).toThrow(/--token/);
    expect(() => resolveSettings({ token: 'sec ret' }, null)).toThrow(/of SERVICE_API_TOKEN/);
    expect(() => resolveSettings({ token: 'sec ret' }, null, new Set(['token']))).toThrow(/of --token/);
    expect(() => checkToken('sec ret', '--token')).not.toThrow(/sec ret/);
    const profile = { server: 'http://127.0.0.1:8000', token: 'sec\r\nret' };
    expect(() => resolveSettings({}, profile)).toThrow(/the profile/);
  });

  test.for(['server', 'token', 'token-file', 'profile', 'app', 'ca'])(
    'An empty --%s is refused without a fallback, and an empty environment variable is ignored',
    (name) => {
      const profile = { server: 'http://127.0.0.1:8000' };
      const empty = `--${name} is empty; give it a value, or leave it out`;
      expect(() => resolveSettings({ [name]: ' ' }, profile, new Set([name]))).toThrow(empty);
      expect(resolveSettings({ [name]: '' }, profile).server).toBe(profile.server);
    },
  );

  test('The named profile is used, otherwise the default one', async () => {
    await using directory = await temporary();
    writeProfile(directory.path, 'lab', lab);
    expect(loadSettings({ profile: 'lab' }, directory.path)).toEqual({
      ...lab,
      isDefault: false,
      appNamedBy: "the profile 'lab'",
    });
    expect(loadSettings({}, directory.path).server).toBe(defaultServer);
    expect(() => loadSettings({ profile: 'home' }, directory.path)).toThrow(/home/);
  });
});
