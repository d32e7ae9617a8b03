import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { dicomFile, type Element, type Encoding, element } from '../../../test/support/dicom-files.js';
import { lacks, scansOf } from '../../../test/support/needs.mjs';
import { temporary } from '../../../test/support/temporary.js';
import { identifying } from '../src/identity/identifying.js';
import { identityIn } from '../src/identity/index.js';

const pixels = new Uint16Array(16);
const slice = (more: readonly Element[]) => ({ pixels, size: [4, 4] as const, position: [0, 0, 0], more });

const removed = element(0x00120062, 'CS', 'YES');
const codes = [element(0x00100010, 'PN', 'case-0001'), element(0x00100020, 'LO', 'case-0001')];
const institution = element(0x00080080, 'LO', 'St. Canary');
const physician = element(0x00080090, 'PN', 'Canary^Ada');
/** Of undefined length, with an item of undefined length. */
const open = (tag: string, inner: Buffer, vr = 'SQ') =>
  Buffer.concat([
    Buffer.from(`${tag}${Buffer.from(vr).toString('hex')}0000ffffffff`, 'hex'),
    Buffer.from('feff00e0ffffffff', 'hex'),
    inner,
    Buffer.from('feff0de000000000feffdde000000000', 'hex'),
  ]);

let directory: Awaited<ReturnType<typeof temporary>>;
let pauses = 0;
beforeAll(async () => {
  directory = await temporary();
});
afterAll(() => directory[Symbol.asyncDispose]());

async function look(content: Buffer) {
  const file = path.join(directory.path, 'scan');
  writeFileSync(file, content);
  return identityIn(file, async () => {
    pauses += 1;
  });
}

const found = async (more: readonly Element[], encoding: Encoding = {}) =>
  (await look(dicomFile(slice(more), encoding)))?.attributes;

describe('a DICOM file', () => {
  test('A DICOM file without identifying information has no identifying attributes', async () => {
    expect(await look(dicomFile(slice([removed, ...codes])))).toEqual({ attributes: [], isWhole: true });
  });

  test('The identifying attributes of a DICOM file are listed by name in tag order, without their values', async () => {
    expect(await found([physician, institution, ...codes])).toEqual([
      'InstitutionName (0008,0080)',
      'ReferringPhysicianName (0008,0090)',
      'PatientName (0010,0010)',
      'PatientID (0010,0020)',
    ]);
  });

  test('A DICOM file may contain a coded patient name and ID only if it declares its identity removed', async () => {
    const birth = element(0x00100030, 'DA', '19700101');
    expect(await found([removed, ...codes, birth])).toEqual(['PatientBirthDate (0010,0030)']);
    expect(await found([element(0x00120062, 'CS', 'NO'), ...codes])).toHaveLength(2);
  });

  test.for(['', '  ', '\0\0', '^^^^', '^ ='])(
    'An attribute without a value is not reported as identifying: %j',
    async (value) => {
      expect(await found([element(0x00080090, 'PN', value)])).toEqual([]);
    },
  );

  test('A private attribute is listed by its tag, but its private creator is not', async () => {
    const creator = element(0x00290010, 'LO', 'SIEMENS CSA HEADER');
    expect(await found([creator, element(0x00291010, 'LO', '')])).toEqual([]);
    expect(await found([creator, element(0x00291010, 'OB', Buffer.from('Canary'))])).toEqual([
      'private attribute (0029,1010)',
    ]);
  });

  test.for([
    ['explicit', {}],
    ['implicit', { isImplicit: true }],
    ['big-endian', { isBig: true }],
    ['deflated', { isDeflated: true }],
    ['compressed', { isCompressed: true }],
    ['without a preamble', { hasPreamble: false }],
    ['without the group that describes it', { hasPreamble: false, hasMeta: false }],
    ['with a preamble alone', { hasMeta: false, isImplicit: true }],
  ] as const)('Identifying attributes are found in sequences of any depth: %s', async ([, encoding]) => {
    const inner = element(0x00400275, 'SQ', [[element(0x00401001, 'SH', 'ORDER1')], [physician]]);
    const nested = element(0x00081140, 'SQ', [[], [element(0x00081140, 'SQ', [[inner]])]]);
    expect(await found([removed, nested], encoding)).toEqual([
      'ReferringPhysicianName (0008,0090)',
      'RequestedProcedureID (0040,1001)',
    ]);
  });

  test('Identifying attributes are found in sequences and items of undefined length, and in those of unknown VR in either encoding', async () => {
    const name = Buffer.from('08009000504e0600', 'hex');
    const explicit = Buffer.concat([name, Buffer.from('Canary')]);
    const implicit = Buffer.concat([Buffer.from('0800900006000000', 'hex'), Buffer.from('Canary')]);
    const plain = dicomFile(slice([]));
    const item = Buffer.concat([Buffer.from('feff00e00e000000', 'hex'), implicit]);
    const closed = Buffer.concat([Buffer.from('08004011554e000016000000', 'hex'), item]);
    for (const sequence of [open('08004011', explicit), open('08004011', implicit, 'UN'), closed]) {
      expect(await look(Buffer.concat([plain, sequence]))).toEqual({
        attributes: ['ReferringPhysicianName (0008,0090)'],
        isWhole: true,
      });
    }
  });

  test.for([{}, { isCompressed: true }] as const)(
    'Identifying attributes are found after the pixels: %j',
    async (encoding) => {
      const behind = element(0x7fe11010, 'OB', Buffer.from('Canary'));
      const file = dicomFile(slice([]), encoding);
      expect((await look(file))?.attributes).toEqual([]);
      const last = Buffer.concat([Buffer.from('e17f10104f42000006000000', 'hex'), behind.value as Buffer]);
      expect((await look(Buffer.concat([file, last])))?.attributes).toEqual([
        'private attribute (7FE1,1010)',
      ]);
    },
  );

  test('Only zeros may follow the data set of a DICOM file', async () => {
    const file = dicomFile(slice([removed]));
    expect(await look(Buffer.concat([file, Buffer.alloc(1001)]))).toEqual({ attributes: [], isWhole: true });
    const text = Buffer.concat([file, Buffer.alloc(64), Buffer.from('Canary, Ada, 1970')]);
    expect(await look(text)).toEqual({ attributes: [], isWhole: false });
  });

  test('A gzip-compressed DICOM file is inspected like any other, and other compressed files are not treated as DICOM', async () => {
    expect((await look(gzipSync(dicomFile(slice([physician])))))?.attributes).toHaveLength(1);
    expect(await look(gzipSync(Buffer.from('Canary'.repeat(1000))))).toBeNull();
    expect(await look(gzipSync(dicomFile(slice([removed]))).subarray(0, -20))).toEqual({
      attributes: [],
      isWhole: false,
    });
  });

  test('A DICOM file that is truncated or nested without an end is reported as incomplete', async () => {
    const file = dicomFile(slice([physician]));
    expect(await look(file.subarray(0, -10))).toEqual({
      attributes: ['ReferringPhysicianName (0008,0090)'],
      isWhole: false,
    });
    let deep: Element[] = [];
    for (let depth = 0; depth < 70; depth += 1) deep = [element(0x00081140, 'SQ', [deep])];
    expect(await look(dicomFile(slice(deep)))).toMatchObject({ isWhole: false });
  });

  test('A DICOM file with too many elements to read is reported as incomplete, and other work runs meanwhile', async () => {
    const empty = Buffer.from('1800500000000000', 'hex');
    const items = Buffer.alloc(8 * 600_000, empty);
    Buffer.from('feff00e0', 'hex').copy(items);
    items.writeUInt32LE(items.length - 8, 4);
    const sequence = element(0x00081140, 'SQ', items);
    pauses = 0;
    expect(await look(dicomFile(slice([sequence]), { isImplicit: true }))).toMatchObject({ isWhole: false });
    expect(pauses).toBeGreaterThan(0);
  });
});

test('A file that is not DICOM is not inspected', async () => {
  expect(await look(Buffer.from('PatientName (0010,0010): Canary'))).toBeNull();
  expect(await look(Buffer.alloc(0))).toBeNull();
});

const pydicom = lacks('python3') ? null : scansOf('pydicom');

/** The attributes of the table that have a value in each file, as pydicom finds them, and those whose keyword it knows otherwise. */
const program = `
import json, pathlib, sys, warnings
import pydicom
from pydicom.datadict import keyword_for_tag
warnings.simplefilter('ignore')
table = dict(json.load(sys.stdin))
def walk(data, found):
    for each in data:
        tag = int(each.tag)
        if each.VR == 'SQ':
            if tag in table and len(each.value) > 0: found.add(tag)
            if not each.tag.is_private:
                for item in each.value: walk(item, found)
        elif tag in table and str(each.value if each.value is not None else '').strip(' ^'): found.add(tag)
    return found
files = {}
for file in sorted(pathlib.Path(sys.argv[1]).rglob('*.dcm')):
    try:
        data = pydicom.dcmread(file)
        tags = walk(data, set())
        if data.get('PatientIdentityRemoved') == 'YES': tags -= {0x00100010, 0x00100020}
        files[str(file)] = sorted(tags)
    except Exception: pass
unknown = [keyword for tag, keyword in table.items() if keyword_for_tag(tag) != keyword]
json.dump({'files': files, 'unknown': unknown}, sys.stdout)
`;

test.skipIf(pydicom === null)(
  'The attributes found in real files match those found by pydicom, with their standard names',
  async () => {
    const input = JSON.stringify([...identifying]);
    const { stdout } = spawnSync('/usr/bin/python3', ['-c', program, pydicom ?? ''], {
      input,
      encoding: 'utf8',
    });
    const { files, unknown } = JSON.parse(stdout) as { files: Record<string, number[]>; unknown: string[] };
    expect(unknown).toEqual([]);
    const names = Object.keys(files);
    expect(names.length).toBeGreaterThan(50);
    for (const name of names) {
      const identity = await identityIn(name, async () => {});
      // A truncated file is read as far as it goes.
      if (!identity?.isWhole) continue;
      const standard = identity.attributes.filter((each) => !each.startsWith('private'));
      const tags = standard.map((each) => Number.parseInt(each.replace(/^.*\(|[,)]/g, ''), 16));
      expect(tags, name).toEqual(files[name]);
    }
  },
);
