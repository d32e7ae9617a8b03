import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { Cli } from '../support/cli.js';
import { fakeService, jobId } from '../support/fake-service.js';
import { json } from '../support/scripted-server.js';
import { plant } from '../support/temporary.js';
import { zip } from '../support/zip.mjs';

/** A server that answers every request with these bytes, and closes. */
async function bytesServer(bytes: string | Buffer) {
  const server = createServer((socket) => {
    socket.on('error', () => {}).once('data', () => socket.end(bytes));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as { port: number };
  return { url: `http://127.0.0.1:${port}`, [Symbol.dispose]: () => server.close() };
}

describe('the built program with malformed answers', () => {
  test.for(['000', '001', '099'])(
    'The command fails with a clear message if the status is %s',
    async (status) => {
      using server = await bytesServer(`HTTP/1.1 ${status} E\r\nContent-Length: 2\r\n\r\n{}`);
      await using cli = await Cli.create();
      const { code, stderr } = await cli.run(['health', '--server', server.url]);
      expect(code, stderr).toBe(5);
      expect(stderr).toContain(`${server.url} answered with something that is not HTTP`);
    },
  );

  test.for([100_000, 130_000, 200_000])(
    'A result of %i bytes is saved even if the server closes the connection while the client is still reading',
    async (size) => {
      const archive = zip([{ name: 'a', content: randomBytes(size) }]);
      const length = `Content-Length: ${archive.length}`;
      const head = ['HTTP/1.1 200 OK', 'Content-Type: application/zip', 'Connection: close', length];
      using server = await bytesServer(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), archive]));
      await using cli = await Cli.create();
      const { code, stderr } = await cli.run(['result', jobId, '-o', 'out', '--server', server.url]);
      expect([stderr, code]).toEqual([expect.stringContaining('Saved 1 file in'), 0]);
      expect(readFileSync(path.join(cli.directory, 'out', 'result.zip')).equals(archive)).toBe(true);
    },
  );

  test('A failed job is reported with its error, although there is a result', async () => {
    await using server = await fakeService({
      status: 'error',
      error: 'boom',
      marker: '__ERROR__ boom',
      override: ({ url }, response) => {
        if (!url.endsWith('/result')) return false;
        response.writeHead(200).end(zip([{ name: 'a', content: 'abc' }]));
        return true;
      },
    });
    await using cli = await Cli.create();
    await plant(cli.directory, { 'a.nii': 'x' });
    const { code, stderr } = await cli.run(['infer', 'a.nii', '--app', 'tissue', '--server', server.url]);
    expect(stderr).toMatch(/^Error: Job \w+ failed: boom$/m);
    expect(stderr).not.toContain('Unhandled');
    expect(code).toBe(1);
  });

  test.for([
    [['drain'], false, 'accepts new jobs'],
    [['drain', '--undo'], true, 'still accepts no new job'],
  ] as const)('The command rejects an answer that does not confirm %s', async ([args, draining, words]) => {
    await using server = await fakeService({
      override: (_, response) => {
        json(response, 200, { draining, active: 0 });
        return true;
      },
    });
    await using cli = await Cli.create();
    const { code, stdout, stderr } = await cli.run([...args, '--server', server.url]);
    expect([code, stdout]).toEqual([5, '']);
    expect(stderr).toContain(words);
  });

  test('A wait for the end of a drain fails if somebody undoes the drain meanwhile', async () => {
    let asked = 0;
    await using server = await fakeService({
      override: (_, response) => {
        asked += 1;
        json(response, 200, { draining: asked === 1, active: 1 });
        return true;
      },
    });
    await using cli = await Cli.create();
    const { code, stderr } = await cli.run(['drain', '--wait', '--server', server.url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining('accepts new jobs again')]);
  });
});

describe('apps APP --config', () => {
  const planted = zip([{ name: '.bashrc', content: 'planted' }]);
  const serving = () =>
    fakeService({
      override: ({ url }, response) => {
        if (!url.startsWith('/repo_apps_config/')) return false;
        response.writeHead(200, { 'content-type': 'application/zip' }).end(planted);
        return true;
      },
    });

  test('apps APP --config writes into a directory that has files only if it is told to', async () => {
    await using server = await serving();
    await using cli = await Cli.create();
    await plant(cli.directory, { 'mine/.bashrc': 'mine' });
    const args = ['apps', 'tissue', '--config', 'mine', '--server', server.url];
    const bashrc = path.join(cli.directory, 'mine/.bashrc');
    const refused = await cli.run(args);
    expect([refused.code, refused.stderr]).toEqual([
      2,
      expect.stringContaining("'mine' already contains files"),
    ]);
    expect(readFileSync(bashrc, 'utf8')).toBe('mine');
    expect((await cli.run([...args, '--force'])).code).toBe(0);
    expect(readFileSync(bashrc, 'utf8')).toBe('planted');
  });
});
