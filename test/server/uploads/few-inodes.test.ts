import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { apps, TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { zip } from '../../support/zip.mjs';

const disk = smallDisk(64, 3000);
/** The mount itself takes one: these have room for two and three files. */
const tiny = [3, 4].map((inodes) => smallDisk(8, inodes));

const names = Array.from({ length: 900 }, (_, index) => `${index}.dcm`);
const files = names.map((name) => filePart('inputs', name, ''));
const archive = zip(names.map((name) => ({ name, content: '' })));
const nested = zip(names.map((name) => ({ name: `${name}/`, mode: 0o040755 })));

async function upload(url: string, body: Buffer): Promise<{ status: number; body: string }> {
  await using connection = await RawConnection.open(url);
  connection.write(submissionHead('/apps/shell/infer', `Content-Length: ${body.length}`));
  connection.write(body);
  return await connection.answer();
}

// Not every machine allows mounting.
describe.skipIf(disk === null)('a disk of few inodes', () => {
  const dataDirectory = path.join(disk ?? '', 'data');
  afterEach(() => rmSync(dataDirectory, { recursive: true }));

  test.for([
    ['files, each in a group of its own', [fieldPart('inputs_groups', Array(900).fill(1).join()), ...files]],
    ['an archive of files', [filePart('inputs', 'scan.konfaidir.zip', archive)]],
    ['an archive of directories', [filePart('inputs', 'scan.konfaidir.zip', nested)]],
  ] as const)('keeps its headroom for jobs while many uploads come at once: %s', async ([, parts]) => {
    await using server = await TestServer.start({
      ownProcess: true,
      apps: [apps.probe, apps.shell],
      dataDirectory,
      flags: ['--max-jobs', '32'],
    });
    const { api } = server;
    const gate = server.gate();
    const id = await api.running('infer', { ...least.infer, ...steps('print=begins', `wait=${gate.path}`) });
    let fewest = Number.POSITIVE_INFINITY;
    let isOver = false;
    const watch = async () => {
      while (!isOver) {
        fewest = Math.min(fewest, (await statfs(dataDirectory)).ffree);
        await new Promise((resolve) => setImmediate(resolve));
      }
    };
    const watching = watch();
    const body = multipart(parts);
    const answers = await Promise.all(Array.from({ length: 20 }, () => upload(server.url, body)));
    isOver = true;
    await watching;
    const refused = answers.filter(({ status }) => status !== 200);
    expect(refused.length).toBeGreaterThan(16);
    for (const { status, body } of refused)
      expect([status, JSON.parse(body)]).toEqual([507, { detail: expect.stringContaining('disk') }]);
    // An eighth of 3000 is kept free; directories and records of the jobs themselves take some of it.
    expect(fewest).toBeGreaterThan(200);
    await until(
      'nothing of the refused ones is left',
      () => server.jobDirectories().length <= 21 - refused.length,
    );
    gate.open();
    expect((await api.ended(id)).view).toMatchObject({ status: 'done', error: null });
  });

  test('takes many small uploads at once', async () => {
    await using server = await TestServer.start({
      ownProcess: true,
      apps: [apps.probe, apps.shell],
      dataDirectory,
      flags: ['--max-jobs', '32'],
    });
    const body = multipart([filePart('inputs', 'ct.nii')]);
    let begun = 0;
    const slow = async () => {
      await using connection = await RawConnection.open(server.url);
      connection.write(submissionHead('/apps/shell/infer', `Content-Length: ${body.length}`));
      connection.write(body.subarray(0, -9));
      begun += 1;
      await until('all have begun', () => begun === 20 && server.jobDirectories().length === 20);
      connection.write(body.subarray(-9));
      return (await connection.answer()).status;
    };
    expect(await Promise.all(Array.from({ length: 20 }, slow))).toEqual(Array(20).fill(200));
  });
});

// Not every machine allows mounting.
describe.skipIf(disk === null)('a start', () => {
  test('on a disk without inodes says that, and not that it has no FIFOs', async () => {
    for (const dataDirectory of tiny) {
      const start = TestServer.start({ ownProcess: true, dataDirectory: dataDirectory ?? '' });
      await expect(start).rejects.toThrow(
        `The data directory ${dataDirectory} cannot be written to: its file system has no room for another file (ENOSPC, no inode is free): remove files there`,
      );
    }
  });

  test('that may write no large file takes no upload, and does not call that a full disk', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    execFileSync('prlimit', ['--pid', String(server.pid), '--fsize=300000']);
    const inputs = file('ct.nii', 'x'.repeat(2_000_000));
    expect(await server.api.refused('infer', { inputs })).toEqual([
      507,
      "The server may not write files of this size: its admin must raise its limit of a file's size (ulimit -f)",
    ]);
  });

  test('and a job that is ended for a file of more than it may write is told that', async () => {
    await using directory = await temporary();
    const app = { display_name: 'Large', description: '', short_description: '', tta: 0, mc_dropout: 0 };
    const command = ['sh', '-c', 'kill -XFSZ $$'];
    await plant(directory.path, { 'large/app.json': JSON.stringify({ ...app, command }) });
    const apps = [path.join(directory.path, 'large')];
    await using server = await TestServer.start({ ownProcess: true, apps, app: 'large' });
    const { view } = await server.api.run('infer', least.infer);
    expect(view.error).toMatch(/SIGXFSZ\); it wrote a larger file than it may \(ulimit -f of the server\)$/);
  });
});
