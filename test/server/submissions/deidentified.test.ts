import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { filesBelow } from '../../../src/files/index.js';
import type { JobRecord } from '../../../src/server/jobs/job-record.js';
import { dicomFile, type Element, element } from '../../support/dicom-files.js';
import { file } from '../../support/form.mjs';
import { boundary, fieldPart, filePart, multipart, submissionHead } from '../../support/multipart.mjs';
import { RawConnection } from '../../support/raw-http.js';
import { sharedServer } from '../../support/server.js';
import { sha256, Tus } from '../../support/tus.js';
import { until } from '../../support/until.mjs';
import { zipOf } from '../../support/zip.mjs';

const scan = (...more: Element[]) =>
  Buffer.from(dicomFile({ pixels: new Uint16Array(16), size: [4, 4], position: [0, 0, 0], more }));
const removed = element(0x00120062, 'CS', 'YES');
const code = element(0x00100010, 'PN', 'case-0001');
const name = element(0x00100010, 'PN', 'Canary^Ada');
const institution = element(0x00080080, 'LO', 'St. Canary');
const right = scan(removed, code);

const claim = { deidentified: 'true' };
const record = (directory: string): JobRecord =>
  JSON.parse(readFileSync(path.join(directory, 'job.json'), 'utf8'));

describe('a server that only takes de-identified scans', () => {
  const server = sharedServer({ flags: ['--require-deidentified'] });
  const { api } = server;
  const nothingLeft = () =>
    until('nothing of the upload is left', () => server.jobDirectories().length === 0);

  test('A server that only takes de-identified scans says so when its limits are requested', async () => {
    expect(await api.json('/limits')).toMatchObject({ require_deidentified: true });
  });

  test.for([
    ['no claim', []],
    ['a false one', [fieldPart('deidentified', 'false')]],
    ['an empty one', [fieldPart('deidentified', '')]],
  ] as const)('A server of de-identified scans refuses a form before its files: %s', async ([, fields]) => {
    await using connection = await RawConnection.open(server.url);
    connection.write(submissionHead('/apps/probe/infer', `Content-Length: ${2 ** 30}`));
    const head = `--${boundary}\r\n${filePart('inputs', 'ct.dcm').headers.join('\r\n')}\r\n\r\n`;
    connection.write(Buffer.concat([multipart(fields, { close: '' }), Buffer.from(head)]));
    const { status, body } = await connection.answer();
    expect(status).toBe(422);
    expect(body).toMatch(/accepts only de-identified scans: send it with remote-app's --deidentify/);
    await nothingLeft();
  });

  test('A server that only takes de-identified scans refuses a claim that comes after the files', async () => {
    const [status, detail] = await api.refused('infer', { inputs: file('ct.dcm', right), ...claim });
    expect([status, detail]).toEqual([422, expect.stringContaining("'deidentified' before the files")]);
    await nothingLeft();
  });

  test('A server that only takes de-identified scans refuses a file that identifies a person, names its attributes, and keeps nothing', async () => {
    const inputs = [file('a.dcm', right), file('b.dcm', scan(name, institution))];
    const [status, detail] = await api.refused('infer', { ...claim, inputs });
    expect(status).toBe(422);
    expect(detail).toMatch(
      /^File 'b\.dcm' identifies a person, in InstitutionName \(0008,0080\), PatientName \(0010,0010\);/,
    );
    expect(detail).not.toContain('Canary');
    await nothingLeft();
    expect(server.stderr).not.toContain('Canary');
  });

  test('A server that only takes de-identified scans names ten attributes, and how many more there are', async () => {
    const many = Array.from({ length: 30 }, (_, at) => element(0x00291010 + at, 'LO', 'Canary'));
    const [, detail] = await api.refused('infer', { ...claim, inputs: file('a.dcm', scan(...many)) });
    expect(detail).toContain('private attribute (0029,1019) and 20 more;');
  });

  test('A server that only takes de-identified scans checks the members of archives', async () => {
    const archive = zipOf({ 'a/1.dcm': right, 'a/IM 2': scan(removed, institution), 'notes.txt': 'Canary' });
    const volume = { ...claim, inputs: file('scan.konfaidir.zip', archive) };
    expect(await api.refused('infer', volume)).toEqual([
      422,
      expect.stringMatching(/^File 'scan\/a\/IM 2' identifies a person, in InstitutionName \(0008,0080\);/),
    ]);
    const set = { ...claim, dataset: file('set.zip', archive) };
    expect(await api.refused('fine_tune', set)).toEqual([
      422,
      expect.stringMatching(/^File 'a\/IM 2' identifies/),
    ]);
    await nothingLeft();
  });

  test('A server that only takes de-identified scans refuses a file that begins like DICOM but cannot be read to its end', async () => {
    const [status, detail] = await api.refused('infer', {
      ...claim,
      inputs: file('a.dcm', right.subarray(0, -10)),
    });
    expect(status, detail).toBe(422);
    expect(detail).toContain("'a.dcm' begins like DICOM but cannot be read to its end");
  });

  test('A server that only takes de-identified scans checks an upload as soon as its last byte arrives, and keeps nothing of a refused one', async () => {
    const tus = new Tus(api);
    const person = scan(name);
    expect(await tus.begin(person, person)).toMatchObject({
      status: 422,
      detail: expect.stringMatching(
        /^The upload identifies a person, in PatientName \(0010,0010\); this server/,
      ),
    });
    await tus.begin(person);
    await tus.patch(sha256(person), 0, person.subarray(0, 50));
    expect((await tus.patch(sha256(person), 50, person.subarray(50))).status).toBe(422);
    expect((await tus.head(sha256(person))).status).toBe(404);
    expect((await tus.begin(right, right)).status).toBe(201);
    const uploads = path.join(server.dataDirectory, 'uploads');
    await until('it is gone', () => filesBelow(uploads).length === 1);
  });

  test('A server that only takes de-identified scans removes the uploads of a submission that it refuses', async () => {
    const tus = new Tus(api);
    const submit = async (upload: string, more: object) => {
      const response = await api.fetch('/apps/probe/infer', {
        method: 'POST',
        headers: { 'Content-Type': 'application/json' },
        body: JSON.stringify({ inputs: { upload, name: 'scan.konfaidir.zip' }, ...more }),
      });
      return [response.status, ((await response.json()) as { detail: string }).detail];
    };
    const archive = zipOf({ '1.dcm': scan(removed, institution) });
    for (const [more, sentence] of [
      [{ deidentified: true }, /^File 'scan\/1\.dcm' identifies a person, in InstitutionName/],
      [{}, /^This server accepts only de-identified scans/],
    ] as const) {
      await tus.begin(archive, archive);
      expect(await submit(sha256(archive), more)).toEqual([422, expect.stringMatching(sentence)]);
      expect((await tus.head(sha256(archive))).status).toBe(404);
    }
    await nothingLeft();
  });

  test('A server that only takes de-identified scans accepts de-identified ones, and files of other formats unchanged', async () => {
    const archive = zipOf({ '1.dcm': right, '2.dcm': right });
    const inputs = [file('scan.konfaidir.zip', archive), file('ct.nii', 'PatientName'), file('a.dcm', right)];
    const { id, view } = await api.run('infer', { ...claim, inputs });
    expect(view).toMatchObject({ status: 'done', deidentified: true });
    expect(record(server.jobDirectory(id)).request.deidentified).toBe(true);
    const { argv } = await api.recorded(id);
    expect(argv.join(' ')).not.toContain('deidentif');
  });
});

describe('any other server', () => {
  const server = sharedServer();
  const { api } = server;

  test('Any other server takes scans as they are, with a claim and without one', async () => {
    expect(await api.json('/limits')).toMatchObject({ require_deidentified: false });
    const inputs = file('a.dcm', scan(name, institution));
    const plain = await api.run('infer', { inputs });
    expect(plain.view).toMatchObject({ status: 'done', deidentified: false });
    expect(record(server.jobDirectory(plain.id)).request.deidentified).toBe(false);
    const { view, log } = await api.run('infer', { inputs, ...claim });
    expect(view.deidentified).toBe(true);
    expect(log).not.toContain('Ignored field');
  });
});
