import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { guardedForm } from '../../../src/client/gateway/form-guard.js';
import { startFault } from '../../../src/imaging/index.js';
import { json, ScriptedServer } from '../../support/scripted-server.js';
import { answerTo, begin, gatewayTo } from './support.js';

const boundary = 'Xb';
const dicom = Buffer.concat([
  Buffer.alloc(128),
  Buffer.from('DICM'),
  Buffer.alloc(40_000, 'name of a patient'),
]);
const nifti = Buffer.alloc(40_000, 7);
nifti.writeInt32LE(348, 0);
nifti.write('n+1\0', 344, 'latin1');

const part = (disposition: string, content: Buffer): Buffer =>
  Buffer.concat([
    Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`),
    content,
    Buffer.from('\r\n'),
  ]);
const fileNamed = (name: string, content: Buffer) => part(`name="inputs"; filename="${name}"`, content);
const end = Buffer.from(`--${boundary}--\r\n`);

/** What a server has received of a body that is sent through a gateway that refuses DICOM, and what the client is told. */
async function sent(
  pieces: readonly Buffer[],
  type = `multipart/form-data; boundary=${boundary}`,
  more: Readonly<Record<string, string>> = {},
) {
  await using server = await ScriptedServer.start((_, response) => json(response, 200, {}));
  await using gateway = await gatewayTo(server.url, {}, { startFault });
  const request = begin(gateway, '/apps/brain/infer', {
    method: 'POST',
    headers: { 'content-type': type, ...more },
  });
  const response = await answerTo(request, pieces);
  const answer = await text(response);
  return { status: response.statusCode, answer, told: gateway.told, received: server.received };
}

const whole = (...parts: readonly Buffer[]) => [Buffer.concat([...parts, end])];
/** The same in pieces of one size. */
const inPieces = (size: number, body: readonly Buffer[]): Buffer[] => {
  const bytes = Buffer.concat([...body]);
  return Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
    bytes.subarray(at * size, (at + 1) * size),
  );
};

describe('a gateway that refuses DICOM', () => {
  test.each([
    ['whole', whole],
    ['in pieces of 100 bytes', (...parts: readonly Buffer[]) => inPieces(100, whole(...parts))],
  ])('A gateway that refuses DICOM passes on other volumes and texts as they are, %s', async (_, form) => {
    const parts = [
      part('name="gpu"', Buffer.from('0')),
      fileNamed('t1.nii', nifti),
      fileNamed('a.nii.gz', gzipSync(nifti)),
    ];
    const { status, received } = await sent(form(...parts));
    expect(status).toBe(200);
    expect(received[0]?.body.equals(Buffer.concat([...parts, end]))).toBe(true);
  });

  test('A gateway that refuses DICOM passes on what is known before the rest has come, and keeps back what is not', async () => {
    const type = `Multipart/Form-Data; boundary=${boundary}`;
    const head = Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="inputs"; filename="t1.nii"\r\n\r\n`,
    );
    let [asked, out] = [0, 0];
    const seen: [number, number][] = [];
    async function* body() {
      for (const piece of [head, nifti.subarray(0, 10_000), nifti.subarray(10_000, 20_000), nifti]) {
        seen.push([asked, out]);
        asked += piece.length;
        yield piece;
      }
      yield Buffer.concat([Buffer.from('\r\n'), end]);
    }
    const request = { headers: { 'content-type': type } } as IncomingMessage;
    const chunks: Buffer[] = [];
    for await (const piece of guardedForm(request, body(), startFault)) {
      chunks.push(piece);
      out += piece.length;
    }
    // Only once 16 KiB of the file are there.
    const before = head.length + 10_000;
    expect(seen).toEqual([
      [0, 0],
      [head.length, 0],
      [before, 0],
      [before + 10_000, before + 10_000],
    ]);
    expect(Buffer.concat(chunks)).toHaveLength(before + 50_000 + 2 + end.length);
  });

  const zip = Buffer.concat([Buffer.from('PK\x03\x04'), Buffer.alloc(30)]);
  const noPreamble = Buffer.from('0800050043530a0049534f5f49522031303008000800435304004f524947', 'hex');
  test.each([
    ['DICOM', 'ct.dcm', dicom, "File 'ct.dcm' is DICOM"],
    ['DICOM under another name', 'ct.nii', dicom, "File 'ct.nii' is DICOM"],
    ['packed DICOM', 'ct.gz', gzipSync(dicom), "File 'ct.gz' is DICOM"],
    ['DICOM without a preamble', 'old', noPreamble, "File 'old' is DICOM"],
    ['an archive', 's.konfaidir.zip', zip, "File 's.konfaidir.zip' does not begin like a known volume"],
    ['DICOM that is packed twice', 'ct.gz', gzipSync(gzipSync(dicom)), "File 'ct.gz' does not begin"],
    [
      'what cannot be unpacked',
      'x.gz',
      Buffer.from('\x1f\x8bno', 'latin1'),
      "File 'x.gz' cannot be unpacked",
    ],
  ])(
    'A gateway that refuses DICOM refuses %s, behind a file that is not',
    async (_, name, content, sentence) => {
      for (const size of [1 << 20, 100]) {
        const form = whole(fileNamed('t1.nii', nifti), fileNamed(name, content));
        const { status, answer, told, received } = await sent(inPieces(size, form));
        expect(status).toBe(422);
        expect(answer).toContain(sentence);
        expect(answer).toMatch(
          /asks for --deidentify.*'remote-app infer'.*'remote-app forward --no-deidentify'/,
        );
        // The server is not to blame, and has nothing of the file.
        expect(told).toEqual([]);
        expect(received.map(({ body }) => body.includes(content.subarray(0, 30)))).not.toContain(true);
      }
    },
  );

  test('A gateway that refuses DICOM refuses DICOM in a field without a file name, and bytes behind the form', async () => {
    const field = await sent(whole(part('name="inputs"', dicom)));
    expect([field.status, field.answer]).toEqual([
      422,
      expect.stringContaining("Field 'inputs' is not text"),
    ]);
    for (const size of [1 << 20, 100]) {
      const form = [...whole(fileNamed('t1.nii', nifti)), dicom.subarray(0, 200)];
      const { status, answer, received } = await sent(inPieces(size, form));
      expect([status, answer]).toEqual([422, expect.stringContaining('Bytes behind the form')]);
      expect(received.map(({ body }) => body.includes('DICM'))).not.toContain(true);
    }
  });

  test('A gateway that refuses DICOM refuses bytes before the form, an encoded form, and bytes that are not text far into a field', async () => {
    const form = whole(fileNamed('t1.nii', nifti));
    const late = Buffer.concat([Buffer.alloc(40_000, 'x'), dicom]);
    for (const size of [1 << 20, 100]) {
      const before = await sent(inPieces(size, [dicom, Buffer.from('\r\n'), ...form]));
      expect([before.status, before.answer]).toEqual([400, expect.stringContaining('is not well formed')]);
      const field = await sent(inPieces(size, whole(part('name="notes"', late))));
      expect(field.status === 422 || field.received.length > 0).toBe(true);
      for (const { received } of [before, field])
        expect(received.map(({ body }) => body.includes('DICM'))).not.toContain(true);
    }
    const packed = gzipSync(Buffer.concat(whole(fileNamed('ct.dcm', dicom))));
    const encoded = await sent([packed], undefined, { 'content-encoding': 'gzip' });
    expect([encoded.status, encoded.answer, encoded.received]).toEqual([
      400,
      expect.stringContaining('is not well formed'),
      [],
    ]);
  });

  test('A gateway that refuses DICOM refuses a form that ends before its file does, and bodies that it cannot look into', async () => {
    const cut = Buffer.concat([fileNamed('ct.dcm', dicom.subarray(0, 1000))]);
    for (const [body, type, sentence] of [
      [cut, undefined, 'ended before the form was complete'],
      [dicom, 'application/offset+octet-stream', 'is not looked into'],
      [Buffer.from('{"inputs": [{"upload": "DICM"}]}'), 'application/json', 'is not looked into'],
    ] as const) {
      const { status, answer, received } = await sent([body], type);
      expect([status, answer]).toEqual([type ? 422 : 400, expect.stringContaining(sentence)]);
      expect(received.map(({ body }) => body.includes('DICM'))).not.toContain(true);
    }
  });
});
