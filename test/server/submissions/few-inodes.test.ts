import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { ServerLog } from '../../../src/cli/serve/server-log.js';
import { Cli } from '../../support/cli.js';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { apps, TestServer } from '../../support/server.js';
import { smallDisk } from '../../support/small-disk.js';
import { plant, temporary } from '../../support/temporary.js';
import { until } from '../../support/until.mjs';
import { zip } from '../../support/zip.mjs';

const disk = smallDisk(64, 400);
/** The mount itself takes one: these have room for two and three files. */
const tiny = [3, 4].map((inodes) => smallDisk(8, inodes));

const names = Array.from({ length: 450 }, (_, index) => `${index}.dcm`);
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
    ['files, each in a group of its own', [fieldPart('inputs_groups', Array(450).fill(1).join()), ...files]],
    ['an archive of files', [filePart('inputs', 'scan.konfaidir.zip', archive)]],
    ['an archive of directories', [filePart('inputs', 'scan.konfaidir.zip', nested)]],
  ] as const)('A disk of few inodes refuses an upload that needs more of them: %s', async ([, parts]) => {
    await using server = await TestServer.start({ apps: [apps.probe, apps.shell], dataDirectory });
    const { api } = server;
    const gate = server.gate();
    const id = await api.running('infer', {
      ...least.infer,
      ...steps('print=begins', `wait=${gate.path}`),
    });
    const { status, body } = await upload(server.url, multipart(parts));
    expect([status, JSON.parse(body)]).toEqual([
      507,
      {
        detail: expect.stringMatching(
          /^The server's disk has too few inodes \(files\) left for .*; try again later, or ask its admin to remove files there$/,
        ),
      },
    ]);
    await until('nothing of it is left', () => server.jobDirectories().length === 1);
    gate.open();
    expect((await api.ended(id)).view).toMatchObject({ status: 'done', error: null });
    expect((await api.run('infer', least.infer)).view.status).toBe('done');
  });
});

// Not every machine allows mounting.
describe.skipIf(disk === null)('a disk without free inodes', () => {
  const place = path.join(disk ?? '', 'full');
  const fill = () => {
    mkdirSync(place);
    for (let index = 0; ; index += 1) {
      try {
        writeFileSync(path.join(place, String(index)), '');
      } catch {
        return;
      }
    }
  };
  afterEach(() => rmSync(place, { recursive: true, force: true }));

  test('A disk without free inodes stores no result, and the command explains why and what to do', async () => {
    await using server = await TestServer.start();
    await using cli = await Cli.create();
    const { id } = await server.api.run('infer', least.infer);
    fill();
    const said: string[] = [];
    const log = new ServerLog({ write: (text) => said.push(text) > 0 });
    try {
      writeFileSync(path.join(place, 'more'), '');
    } catch (cause) {
      log.report('It could not be written', cause);
    }
    expect(said.join('')).toContain(
      'It could not be written: no inodes (files) are left on its disk: remove files there',
    );
    const { code, stderr } = await cli.run(['result', id, '-o', place, '--force', '--server', server.url]);
    expect(stderr).toContain(
      `Results cannot be saved in '${place}': no inodes (files) are left (ENOSPC); remove some files there, or choose another directory`,
    );
    expect(code).toBe(2);
  });
});

// Not every machine allows mounting.
describe.skipIf(disk === null)('a start', () => {
  test('A start on a disk without free inodes reports that, rather than a lack of FIFOs', async () => {
    for (const dataDirectory of tiny) {
      const start = TestServer.start({ runners: true, dataDirectory: dataDirectory ?? '' });
      await expect(start).rejects.toThrow(
        `The data directory ${dataDirectory} cannot be written to: no inodes (files) are left on its disk (ENOSPC): remove files there`,
      );
    }
  });

  test('A server with a file size limit refuses a larger upload, and does not report a full disk', async () => {
    await using server = await TestServer.start({ ownProcess: true });
    execFileSync('prlimit', ['--pid', String(server.pid), '--fsize=300000']);
    const inputs = file('ct.nii', 'x'.repeat(2_000_000));
    expect(await server.api.refused('infer', { inputs })).toEqual([
      507,
      "The server may not write files of this size: its admin must raise its limit of a file's size (ulimit -f)",
    ]);
  });

  test('A job that is ended because its file is too large to write says so', async () => {
    await using directory = await temporary();
    const app = { display_name: 'Large', description: '', short_description: '', tta: 0, mc_dropout: 0 };
    const command = ['sh', '-c', 'kill -XFSZ $$'];
    await plant(directory.path, { 'large/app.json': JSON.stringify({ ...app, command }) });
    const apps = [path.join(directory.path, 'large')];
    await using server = await TestServer.start({ runners: true, apps, app: 'large' });
    const { view } = await server.api.run('infer', least.infer);
    expect(view.error).toMatch(/SIGXFSZ\); it wrote a larger file than it may \(ulimit -f of the server\)$/);
  });
});
