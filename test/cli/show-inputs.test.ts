import path from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect, onTestFinished, test } from 'vitest';
import { loadShowInputs } from '../../src/cli/submit/index.js';
import { CommandIo } from '../../src/cli/terminal/index.js';
import { dicomFile } from '../support/dicom.js';
import { metaHeader } from '../support/headers.js';
import { plant, temporary } from '../support/temporary.js';

/** What is shown of these files, with `.` for the directory that they are in. */
async function shown(files: Readonly<Record<string, string | Buffer>>, isQuiet = false) {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  await plant(root.path, files);
  const streams = { stdin: new PassThrough(), stdout: new PassThrough(), stderr: new PassThrough() };
  const io = new CommandIo({ ...streams, env: {} });
  const plain = (text: string) => text.replaceAll(`${root.path}/`, '');
  const { showInputs } = await loadShowInputs();
  const document = await showInputs([path.join(root.path, 'in')], { 'all-files': false }, io, isQuiet).then(
    (told) => JSON.parse(plain(JSON.stringify(told))),
    (error: Error) => plain(error.message),
  );
  const textOf = async (stream: PassThrough) => plain((await buffer(stream.end())).toString());
  return {
    document,
    code: io.exitCode,
    out: await textOf(streams.stdout),
    err: await textOf(streams.stderr),
  };
}

const pair = { 'in/a.mhd': metaHeader('a.raw'), 'in/a.raw': 'x' };

test('Volumes are told with all of their files, and columns without a value are left out', async () => {
  const size = metaHeader('a.raw').length + 1;
  const { document, code, out, err } = await shown({ ...pair, 'in/b.nii': 'abc', 'in/notes.txt': '' });
  expect([code, out.split('\n')]).toEqual([
    0,
    [
      'NAME   FORMAT     FILES  BYTES',
      `a.mhd  MetaImage  2      ${size} B`,
      'b.nii  NIfTI      1      3 B',
      '',
    ],
  ]);
  expect(document.volumes).toEqual([
    { name: 'a.mhd', path: 'in/a.mhd', format: 'MetaImage', files: 2, bytes: size, series: null },
    { name: 'b.nii', path: 'in/b.nii', format: 'NIfTI', files: 1, bytes: 3, series: null },
  ]);
  expect([document.skipped, document.refused]).toEqual([['in/notes.txt'], []]);
  expect(err).toContain('notes.txt');
  const quiet = await shown(pair, true);
  expect([quiet.out, quiet.err]).toEqual(['', '']);
});

test('Patients are listed if there are several', async () => {
  const scan = (patient: string, series: string) => ({
    [`in/${patient}.dcm`]: dicomFile({ ...{ kind: 'DX', image: 1, description: 'chest' }, patient, series }),
  });
  const two = await shown({ ...scan('P1', '1'), ...scan('P2', '2') });
  const columns = two.out.split('\n').map((line) => line.split(/ {2,}/).slice(2, 5).join(' '));
  expect(columns.slice(0, 3)).toEqual(['PATIENT SERIES DESCRIPTION', 'P1 1 chest', 'P2 1 chest']);
  const patients = ({ document }: Awaited<ReturnType<typeof shown>>) =>
    document.volumes.map((each: { series: { patient: string | null } }) => each.series.patient);
  expect(patients(two)).toEqual(['P1', 'P2']);
  expect(patients(await shown(scan('P1', '1')))).toEqual([null]);
});

test('Each file that cannot be sent is told, and that nothing is sent because of them', async () => {
  const { document, code, out, err } = await shown({ 'in/a.nii': '', 'in/b.nii': '' });
  expect([code, out]).toEqual([2, '']);
  expect(document.refused.map((each: { path: string }) => each.path)).toEqual(['in/a.nii', 'in/b.nii']);
  expect(err.split('\n')).toEqual([
    expect.stringMatching(/^Cannot be sent: 'in\/a\.nii' is empty \(0 bytes\)/),
    expect.stringMatching(/^Cannot be sent: 'in\/b\.nii' is empty \(0 bytes\)/),
    'Nothing is sent of these paths because of 2 files that cannot be sent',
    '',
  ]);
  const beside = await shown({ ...pair, 'in/b.nii': '' });
  expect([beside.code, beside.document.volumes.length]).toEqual([2, 1]);
  expect(beside.err).toContain('because of 1 file that cannot be sent');
});

test('The only file that there is, and cannot be sent, is the error', async () => {
  const { document, out, err } = await shown({ 'in/a.nii': '' });
  expect([document, out, err]).toEqual([expect.stringMatching(/^'in\/a\.nii' is empty \(0 bytes\)/), '', '']);
});
