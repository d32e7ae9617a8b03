import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { readSmallFile } from '../../src/files/read-file.js';
import { syncDirectory, syncDirectorySync, syncFile } from '../../src/files/sync.js';
import { readJsonFile, replaceFile, writeJsonFile } from '../../src/files/whole-file.js';
import { imitate } from '../support/platform.js';
import { plant, temporary } from '../support/temporary.js';

const fault = (code: string) => Object.assign(new Error(code), { code, errno: -1 });

describe('a file that another program has open for a moment', () => {
  test.each(['EPERM', 'EACCES', 'EBUSY'])(
    'A file that another program has open for a moment is replaced on Windows as soon as it is closed (%s)',
    (code) => {
      using _ = imitate('win32');
      let attempts = 0;
      const move = () => {
        attempts += 1;
        if (attempts < 3) throw fault(code);
      };
      replaceFile('from', 'to', move);
      expect(attempts).toBe(3);
    },
  );

  test('Moving a file onto a directory, which Windows always refuses, is tried once', async () => {
    await using root = await temporary();
    using _ = imitate('win32');
    let attempts = 0;
    const move = () => {
      attempts += 1;
      throw fault('EPERM');
    };
    expect(() => replaceFile('from', root.path, move)).toThrow('EPERM');
    expect(attempts).toBe(1);
  });
});

describe('syncing a directory', () => {
  test('A directory is not synced on Windows, which cannot open one', async () => {
    using _ = imitate('win32');
    expect(() => syncDirectorySync('/no/such/directory')).not.toThrow();
    await syncDirectory('/no/such/directory');
  });

  test.runIf(existsSync('/proc/self/fdinfo'))(
    'A file system that cannot sync directories causes no error',
    async () => {
      expect(() => syncDirectorySync('/proc/self')).not.toThrow();
      expect(() => syncDirectorySync('/no/such/directory')).toThrow('ENOENT');
      await syncDirectory('/proc/self');
      await expect(syncDirectory('/no/such/directory')).rejects.toThrow('ENOENT');
    },
  );

  test.each(['win32', 'darwin', 'linux'] as const)(
    'A JSON file is saved on %s, whether or not directories can be synced',
    async (platform) => {
      await using root = await temporary();
      const file = path.join(root.path, 'profiles.json');
      using _ = imitate(platform);
      writeJsonFile(file, { a: 1 });
      writeJsonFile(file, { a: 2 });
      expect(readJsonFile(file)).toEqual({ a: 2 });
      expect(readFileSync(file, 'utf8')).toBe('{\n  "a": 2\n}\n');
    },
  );
});

test.runIf(process.platform === 'linux')(
  'On Windows, a file is opened for writing in order to sync it',
  async () => {
    await syncFile(process.execPath);
    using _ = imitate('win32');
    // Linux opens no program for writing that runs.
    await expect(syncFile(process.execPath)).rejects.toThrow('ETXTBSY');
  },
);

test('A text file may be what PowerShell writes: UTF-16, or UTF-8 with a byte order mark', async () => {
  await using root = await temporary();
  await plant(root.path, {
    wide: Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from('sécret\r\n', 'utf16le')]),
    marked: '\ufeffsécret\r\n',
    plain: 'sécret\r\n',
  });
  for (const name of ['wide', 'marked', 'plain']) {
    expect(readSmallFile(path.join(root.path, name))).toBe('sécret\r\n');
  }
});
