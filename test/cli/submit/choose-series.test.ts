import path from 'node:path';
import { PassThrough, Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { seriesChoice } from '../../../src/cli/submit/choose-series.js';
import { CommandIo } from '../../../src/cli/terminal/index.js';
import type { Series } from '../../../src/client/found-files.js';
import { built, builtCommands } from '../../support/built.js';
import { dicomSeries } from '../../support/dicom.js';
import { fakeService } from '../../support/fake-service.js';
import { withOwnEnvironment } from '../../support/own-environment.js';
import { plant, temporary } from '../../support/temporary.js';

const question = 'Which ones should be sent?';

/** Submits a directory with two series at a terminal where a person gives these answers, and then Ctrl-D. */
async function submit(flags: readonly string[], ...answers: readonly string[]) {
  await using root = await temporary();
  for (const [series, description] of [
    ['3', 'T1 MPRAGE'],
    ['5', 'FLAIR'],
  ] as const) {
    const files = dicomSeries(
      2,
      { series, number: Number(series), description },
      (image) => `${series}-${image}`,
    );
    await plant(path.join(root.path, 'export'), files);
  }
  await using server = await fakeService({});
  const { main, CommandIo } = await builtCommands();
  const stdin = new PassThrough();
  const left = [...answers];
  let told = '';
  const write = (chunk: Buffer, _: string, done: () => void) => {
    told += chunk;
    done();
    if (!chunk.includes(question)) return;
    const answer = left.shift();
    if (answer === undefined) stdin.end();
    else stdin.write(`${answer}\n`);
  };
  const terminal = { isTTY: true } as const;
  const io = new CommandIo({
    stdin: Object.assign(stdin, terminal),
    stdout: Object.assign(new Writable({ write }), terminal),
    stderr: Object.assign(new Writable({ write }), terminal),
    env: { HOME: root.path, CI: '1' },
  });
  const args = ['infer', 'export', '--detach', '--server', server.url, ...flags];
  await withOwnEnvironment(root.path, io.env, () => main(fileURLToPath(built('start')), args, io));
  const [request] = server.to('/apps/');
  const body = request?.body.toString('latin1') ?? '';
  const sent = [...body.matchAll(/filename="([^"]*)"/g)].map(([, name]) => name);
  return { code: io.exitCode, isAsked: told.includes(question), sent, told };
}

const [t1, flair] = ['export_3_T1-MPRAGE.konfaidir.zip', 'export_5_FLAIR.konfaidir.zip'];

test('A person at a terminal is asked which series are sent, until the answer names some', async () => {
  const { told, ...one } = await submit([], '7', '5');
  expect(one).toEqual({ code: 0, isAsked: true, sent: [flair] });
  expect(told).toContain("2 DICOM series were found:\n  3 'T1 MPRAGE' (MR, 16 x 16 x 2, axial)\n");
  expect(told).toContain("No series has the number or description '7'.\n");
  expect((await submit([], '')).sent).toEqual([t1, flair]);
});

test('Nothing is sent without an answer', async () => {
  expect(await submit([])).toMatchObject({ code: 130, isAsked: true, sent: [] });
});

test.each([
  ['--yes', ['--yes'], [t1, flair]],
  ['--series', ['--series', 'fl*'], [flair]],
  ['--json', ['--json'], [t1, flair]],
  ['several groups', ['-i', 'export'], [t1, flair, t1, flair]],
] as const)('Nobody is asked with %s', async (_, flags, sent) => {
  const submitted = await submit(flags);
  expect([submitted.isAsked, submitted.code]).toEqual([false, 0]);
  expect(submitted.sent.map((name) => name?.replace(/_\d(?=\.)/, ''))).toEqual(sent);
});

test.each([
  ['stdin', false],
  ['stderr', false],
  ['stdout', true],
  ['nothing', true],
] as const)('The question is asked if all streams but %s are terminals: %j', (other, isAsked) => {
  const stream = (name: string) => Object.assign(new PassThrough(), { isTTY: name !== other });
  const streams = { stdin: stream('stdin'), stdout: stream('stdout'), stderr: stream('stderr') };
  const io = new CommandIo({ ...streams, env: {} });
  expect(seriesChoice(undefined, io, { mayAsk: true }) !== undefined).toBe(isAsked);
  expect(seriesChoice(undefined, io, { mayAsk: false })).toBeUndefined();
});

/** So many series with the descriptions `T1`, `T2` and so on. */
const many = (count: number): Series[] =>
  Array.from({ length: count }, (_, index) => ({
    ...{ path: '', isFile: false, files: [], order: [], number: index + 1, description: `T${index + 1}` },
    ...{ modality: 'MR', patient: '', person: '', images: 2, size: [], plane: null, remarks: [] },
  }));

test('A word that matches no series is refused with a list of at most ten series', async () => {
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const io = new CommandIo({ ...streams, env: {} });
  const choose = seriesChoice(['T2', 'none', 'T*'], io, { mayAsk: false });
  const listed = (count: number) =>
    many(count)
      .map(({ number }) => `${number} 'T${number}' (MR, 2 images)`)
      .join(', ');
  const refusal = "No series has the number or description 'none'; there are ";
  await expect(choose?.(many(10))).rejects.toThrow(
    expect.objectContaining({ message: refusal + listed(10) }),
  );
  await expect(choose?.(many(11))).rejects.toThrow(
    expect.objectContaining({ message: `${refusal}${listed(10)}; 'remote-app inputs' lists all 11` }),
  );
  const chosen = await seriesChoice(['3', 'T1?'], io, { mayAsk: false })?.(many(11));
  expect(chosen?.map(({ number }) => number)).toEqual([3, 10, 11]);
  expect(seriesChoice(undefined, io, { mayAsk: true })).toBeUndefined();
});
