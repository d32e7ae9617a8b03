import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { least, steps } from '../../support/form.js';
import { file } from '../../support/form.mjs';
import { sharedServer, TestServer } from '../../support/server.js';
import { TestClock } from '../../support/test-clock.js';
import { until } from '../../support/until.mjs';

const mebibyte = 2 ** 20;
const clock = new TestClock();
const server = sharedServer({ clock, flags: ['--disk-per-job', '4MiB'] });
const { api } = server;
const wait = 'wait=/nowhere';

test.for([
  ['its output, and waits', 'Output', [`fill=big:${6 * mebibyte}`, wait]],
  ['its output, and ends at once', 'Output', [`fill=big:${6 * mebibyte}`]],
  ['its temporary directory', 'Workspace', ['shell=head -c 6291456 /dev/urandom > "$TMPDIR/big"', wait]],
  ['many small files', 'Workspace', ['shell=for i in $(seq 1400); do echo x > $TMPDIR/$i; done', wait]],
] as const)('A job that writes more than its limit is ended: %s', async ([, part, todo]) => {
  const { job_id: id } = await api.accepted('infer', { ...least.infer, ...steps(...todo) });
  // The size is looked at every second.
  await until('the job is ended', async () => {
    clock.pass(1);
    return (await api.job(id)).status === 'error';
  });
  const { view, log } = await api.ended(id);
  const sentence = new RegExp(
    `Ended: it wrote [4-9]\\.\\d MiB \\(.*${part} .*\\), and a job may write 4\\.0 MiB \\(--disk-per-job of the server\\); its files are removed`,
  );
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(sentence), left_files: 0 });
  expect(log).toMatch(sentence);
  expect(server.stderr).toMatch(new RegExp(`Job ${id} of the admin is ended: it wrote .*${part}`));
  const isThere = (name: string) => existsSync(path.join(server.jobDirectory(id), name));
  await until('its files are removed', () => !isThere('Output') && !isThere('Workspace'));
  expect((await api.fetch(`/jobs/${id}/result?partial=1`)).status).toBe(404);
});

test('A job that keeps a removed file open beyond its limit is ended', async () => {
  await using real = await TestServer.start({ runners: true, flags: ['--disk-per-job', '4MiB'] });
  const open = 'shell=exec 5>gone; rm gone; head -c 6291456 /dev/urandom >&5; sleep 1000';
  const { view } = await real.api.run('infer', { ...least.infer, ...steps(open) });
  expect(view.error).toMatch(
    /^Ended: it wrote 6\.0 MiB \(.*removed files that are still open 6\.0 MiB\), and/,
  );
});

test("A result longer than a job's limit is not packed, however little disk space it occupies", async () => {
  const { view } = await api.run('infer', { ...least.infer, ...steps(`zeros=hole:${2 ** 40}`) });
  const sentence =
    /^Ended: its result has 1\.0 TiB to pack, and a job may write 4\.0 MiB .*; its files are removed$/;
  expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(sentence) });
});

test('A job is ended if the server cannot see all of its files', async () => {
  const deep = `shell=d=${'d'.repeat(250)}; for i in $(seq 20); do mkdir $d && cd $d; done; wait`;
  await using ordinary = await TestServer.start({ asOrdinaryUser: true, flags: ['--sandbox', 'off'] });
  for (const [todo, fault] of [
    ['shell=mkdir closed; chmod 000 closed', "'Output/closed' .*permission denied"],
    [deep, 'name too long'],
  ] as const) {
    const { view } = await ordinary.api.run('infer', { ...least.infer, ...steps(todo) });
    const sentence = new RegExp(`^Ended: the server cannot look into .*${fault}.*; its files are removed$`);
    expect(view).toMatchObject({ status: 'error', error: expect.stringMatching(sentence) });
  }
});

test('Inputs, sparse files and additional hard links do not count towards the limit', async () => {
  // The app notes its input in its output.
  const inputs = file('ct.nii', 'x'.repeat(3 * mebibyte));
  const names = 'shell=cd $TMPDIR; head -c 600000 /dev/urandom > a; for i in 1 2 3; do ln a $i; done';
  const hole = 'shell=truncate -s 1T $TMPDIR/hole';
  const form = { inputs, ...steps(hole, names) };
  expect((await api.run('infer', form)).view).toMatchObject({ status: 'done', error: null });
});
