import { chmodSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { checkOutput } from '../../../src/client/result/check-output.js';
import { plant, temporary } from '../../support/temporary.js';

/** The sentence that refuses a directory; undefined if it is accepted. */
function refusal(directory: string): string | undefined {
  try {
    checkOutput(directory);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
}

describe('a directory for results', () => {
  test('may exist, may be missing and may be a link; the check leaves nothing behind', async () => {
    await using directory = await temporary();
    await plant(directory.path, { 'there/result.zip': 'older' });
    symlinkSync('there', path.join(directory.path, 'link'));
    for (const name of ['there', 'new', 'new/a/b/c', 'link', 'link/new']) {
      expect(refusal(path.join(directory.path, name)), name).toBeUndefined();
    }
    expect(readdirSync(directory.path).sort()).toEqual(['link', 'there']);
    expect(readdirSync(path.join(directory.path, 'there'))).toEqual(['result.zip']);
  });

  test('is refused if a file is in its place, and the message names the file', async () => {
    await using directory = await temporary();
    await plant(directory.path, { file: '', 'taken/result.zip/a': '' });
    symlinkSync('nowhere', path.join(directory.path, 'dangling'));
    const at = (name: string) => path.join(directory.path, name);
    expect(refusal(at('file'))).toBe(
      `Results cannot be saved in '${at('file')}': it is not a directory; choose another directory with --output`,
    );
    expect(refusal(at('file/a/b'))).toContain(`'${at('file')}' is not a directory`);
    expect(refusal(at('dangling'))).toContain('it is a link to something that does not exist');
    expect(refusal(at('taken'))).toContain(`'${at('taken/result.zip')}' is a directory`);
  });

  test.each(['n'.repeat(300), `missing/${'n'.repeat(300)}`])(
    'is refused if its name is too long',
    async (name) => {
      await using directory = await temporary();
      expect(refusal(path.join(directory.path, name))).toContain('name too long (ENAMETOOLONG)');
      expect(readdirSync(directory.path)).toEqual([]);
    },
  );

  test.skipIf(process.getuid?.() === 0)('is refused without write permission', async () => {
    await using directory = await temporary();
    const closed = path.join(directory.path, 'closed');
    mkdirSync(closed);
    chmodSync(closed, 0o500);
    expect(refusal(closed)).toContain('permission denied (EACCES)');
    expect(refusal(path.join(closed, 'new'))).toContain(
      `it cannot be made in '${closed}': permission denied`,
    );
  });

  test.skipIf(process.platform !== 'linux').each(['/proc', '/proc/remote-app', '/proc/remote-app/a', '/sys'])(
    'is refused in a file system of the kernel, also for root: %s',
    (directory) => {
      expect(refusal(directory)).toMatch(new RegExp(`^Results cannot be saved in '${directory}': `));
    },
  );
});
