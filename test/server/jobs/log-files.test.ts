import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { linesOf } from '../../support/log-lines.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { until } from '../../support/until.mjs';

const server = sharedServer();
const { api } = server;
const logFile = (id: string): string => path.join(server.jobDirectory(id), 'log');

/** A job that has ended, with this log. */
async function endedWith(log: string): Promise<string> {
  const { id } = await api.run('infer', least.infer);
  writeFileSync(logFile(id), log);
  return id;
}

/** Replaces a job's directory by a file; returns a function that undoes that. */
function unreadable(id: string): () => void {
  const directory = server.jobDirectory(id);
  renameSync(directory, `${directory}.away`);
  writeFileSync(directory, '');
  return () => {
    rmSync(directory);
    renameSync(`${directory}.away`, directory);
  };
}

describe('the stream of a log', () => {
  test.for<[string, (file: string) => void]>([
    ['removed', () => {}],
    ['replaced by a link', (file: string) => symlinkSync('/etc/hostname', file)],
    ['replaced by a pipe', (file: string) => execFileSync('mkfifo', [file])],
  ])('The stream of a log that was %s says so, and ends', async ([, replace]) => {
    const id = await endedWith('gone\n');
    rmSync(logFile(id));
    replace(logFile(id));
    expect(linesOf(await api.log(id))).toEqual([expect.stringContaining('removed or replaced'), '__DONE__']);
  });

  test.for([1, 16, 31, 32, 33, 64, 200])('The stream of a log has complete lines of %d KiB', async (size) => {
    // Characters of two bytes at odd positions, so that every read splits some of them.
    const lines = Array.from({ length: 5 }, (_, index) => `${index}${'é'.repeat(size * 512)}`);
    const id = await endedWith(`short\n${lines.join('\n\n')}\nlast\n`);
    const expected = ['short', ...lines.flatMap((line) => [line, '']).slice(0, -1), 'last', '__DONE__'];
    expect(linesOf(await api.log(id))).toEqual(expected);
    expect(linesOf(await api.log(id, '?since=4'))).toEqual(expected.slice(4));
  });

  test('The stream of a log includes the last line of a job that has ended, even without a line feed', async () => {
    const id = await endedWith('one\ntwo');
    expect(await api.log(id, '?since=1')).toBe('id: 2\ndata: two\n\ndata: __DONE__\n\n');
    expect(await api.log(id, '?since=2')).toBe('data: __DONE__\n\n');
  });

  test('The stream of a log has no incomplete line: it is sent when it is complete', async () => {
    const gate = server.gate();
    const { job_id: id } = await api.accepted('infer', { ...least.infer, ...steps(`wait=${gate.path}`) });
    await using log = await api.follow(id);
    await log.until('probe infer');
    appendFileSync(logFile(id), 'before\nhalf of ');
    await log.until('before');
    expect(log.text).not.toContain('half');
    appendFileSync(logFile(id), 'a line\n');
    await log.until('half of a line');
    gate.open();
    await log.end();
  });

  test('The stream of a log is complete for a reader that reads late', async () => {
    const lines = Array.from({ length: 300_000 }, (_, index) => `line ${index} of a long training run`);
    const id = await endedWith(`${lines.join('\n')}\n`);
    // The response is kept: fetch cancels the body of one that is collected.
    const response = await api.fetch(`/jobs/${id}/logs?since=0`);
    // It is far longer than the buffers of the connection.
    for (let round = 0; round < 20; round += 1) await api.json('/health');
    const text = await response.text();
    const events = lines.map((line, index) => `id: ${index + 1}\ndata: ${line}\n\n`);
    expect(text === `${events.join('')}data: __DONE__\n\n`).toBe(true);
  });

  test('The stream of a log is cut, and does not end normally, if the log cannot be read', async () => {
    const id = await endedWith('again\n');
    const putBack = unreadable(id);
    await expect(api.log(id)).rejects.toThrow();
    await until('the fault is reported', () => server.stderr.includes('ENOTDIR'));
    putBack();
    expect(linesOf(await api.log(id))).toEqual(['again', '__DONE__']);
  });

  test('The stream of a log is also cut if it waits for another answer', async () => {
    const [first, second] = [await endedWith('a\n'), await endedWith('')];
    unreadable(second);
    await using connection = await RawConnection.open(server.url);
    const request = (id: string) => `GET /jobs/${id}/logs HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    connection.write(request(first) + request(second));
    await until('the connection is closed', () => connection.isClosed);
    expect(connection.received).toMatch(/data: __DONE__\n\n\r\n0\r\n\r\n$/);
    expect((await api.fetch('/health')).status).toBe(200);
  });
});

describe('a log that may not be opened', () => {
  const forbidden = expect.stringContaining('may not be opened');
  const ordinary = sharedServer({ asOrdinaryUser: true });

  test.for(['its directory', 'the file itself'])(
    'A log that cannot be opened is explained in one line after the job has ended: %s is inaccessible',
    async (what) => {
      const { id } = await ordinary.api.run('infer', { ...least.infer, ...steps('print=before') });
      const directory = ordinary.jobDirectory(id);
      chmodSync(what === 'its directory' ? directory : path.join(directory, 'log'), 0);
      for (const query of ['', '?since=0', '?tail=5']) {
        expect(linesOf(await ordinary.api.log(id, query)), query).toEqual([forbidden, '__DONE__']);
      }
      chmodSync(directory, 0o700);
      chmodSync(path.join(directory, 'log'), 0o600);
      expect(await ordinary.api.log(id)).toContain('before');
    },
  );

  test('A log in a directory that the running job closed is explained, and its stream ends with the job', async () => {
    const gate = ordinary.gate();
    const closing = steps('shell=chmod 000 ..', `wait=${gate.path}`);
    const { job_id: id } = await ordinary.api.accepted('infer', { ...least.infer, ...closing });
    const directory = ordinary.jobDirectory(id);
    await until('the job has closed its directory', () => (statSync(directory).mode & 0o777) === 0);
    await using log = await ordinary.api.follow(id);
    await log.until(/may not be opened/);
    // Without this, its end would take 20 s: the runner cannot save it.
    chmodSync(directory, 0o700);
    gate.open();
    expect(linesOf(await log.end())).toEqual([forbidden, '__DONE__']);
  });
});
