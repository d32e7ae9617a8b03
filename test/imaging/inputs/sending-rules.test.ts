import { symlink } from 'node:fs/promises';
import path from 'node:path';
import { deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { fieldWithRole, operationOf } from '../../../src/contract/index.js';
import { findVolumes } from '../../../src/imaging/inputs/index.js';
import { memoryReporter } from '../../client/support/connect.js';
import { stage } from '../../client/support/stage.js';
import { afniHeader, metaHeader, nrrdHeader, pairHeader, parHeader } from '../../support/headers.js';
import { plant, temporary } from '../../support/temporary.js';
import { zarrStore } from '../../support/zarr.js';

/** A private key on the user's machine, which must never be sent. */
const secret = '-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjE\n';

/** Three bytes, packed by numcodecs. */
const blosc = Buffer.from('02019301030000000300000013000000616263', 'hex');

type Files = Readonly<Record<string, string | Buffer>>;
type Links = Readonly<Record<string, string>>;

async function place(files: Files, links: Links = {}) {
  const directory = await temporary();
  await plant(directory.path, files);
  for (const [name, target] of Object.entries(links)) {
    await plant(directory.path, { [`${path.dirname(name)}/`]: '' });
    await symlink(target, path.join(directory.path, name));
  }
  return Object.assign(directory, { short: (text: string) => text.replaceAll(`${directory.path}/`, '') });
}

/** The paths of all files that leave, or the sentence for why none does; and the notes. */
async function sent(files: Files, links: Links, named: readonly string[], allFiles = false) {
  await using root = await place(files, links);
  const operation = operationOf('infer');
  const groups = [named.map((each) => path.join(root.path, each))];
  const given = [{ field: fieldWithRole(operation, 'paths'), groups }];
  const submission = { operation, app: 'x', fields: {}, options: {}, files: given, archive: null, allFiles };
  const reporter = memoryReporter();
  const result = await stage(submission, reporter, undefined).then(
    async (staged) => {
      await staged[Symbol.asyncDispose]();
      return (staged.sending.sent.inputs ?? []).flat().map((each) => root.short(each.path));
    },
    (error: Error) => root.short(error.message),
  );
  return { result, notes: reporter.notes.map(root.short) };
}

describe('files that a header names', () => {
  const wanted = metaHeader('x', secret.length);
  test.each<[string, string, Files, RegExp]>([
    [
      'a hidden file',
      'in/a.mhd',
      { 'in/a.mhd': metaHeader('.git-credentials'), 'in/.git-credentials': 'x' },
      /hidden/,
    ],
    [
      'a document',
      'in/a.nhdr',
      { 'in/a.nhdr': nrrdHeader('data file: letter', 9), 'in/letter': '%PDF-1.7\n' },
      /a PDF document/,
    ],
    [
      'a text of the right size',
      'in/a.mhd',
      { 'in/a.mhd': wanted.replace('= x', '= key'), 'in/key': secret },
      /is text/,
    ],
    [
      'an archive',
      'in/a.mhd',
      { 'in/a.mhd': metaHeader('b.zip', 8), 'in/b.zip': 'PK\u0003\u0004\0\0\0\0' },
      /a zip archive/,
    ],
    [
      'more bytes than its voxels',
      'in/a.mhd',
      { 'in/a.mhd': metaHeader('b.raw', 4), 'in/b.raw': Buffer.alloc(5) },
      /has 5 bytes, and its header says 4/,
    ],
    [
      'a size that is not given',
      'in/a.mhd',
      { 'in/a.mhd': 'NDims = 3\nElementDataFile = b\n', 'in/b': Buffer.alloc(3) },
      /does not say how many bytes/,
    ],
    [
      'a start that is left open',
      'in/a.mhd',
      { 'in/a.mhd': metaHeader('b').replace('NDims', 'HeaderSize = -1\nNDims'), 'in/b': Buffer.alloc(3) },
      /does not say how many bytes/,
    ],
    [
      'one of a list',
      'in/a.mhd',
      { 'in/a.mhd': `${metaHeader('LIST', 2)}1.raw\nid\n`, 'in/1.raw': Buffer.alloc(1), 'in/id': secret },
      /in\/id' is text/,
    ],
    [
      'one of a pattern',
      'in/a.mhd',
      { 'in/a.mhd': metaHeader('%d.raw 1 2 1', 2), 'in/1.raw': Buffer.alloc(1), 'in/2.raw': secret },
      /2\.raw' is text/,
    ],
    [
      'packed data that are something else',
      'in/a.nhdr',
      {
        'in/a.nhdr': nrrdHeader('data file: b.gz', secret.length).replace('raw\n', 'gzip\n'),
        'in/b.gz': gzipSync(secret),
      },
      /is text/,
    ],
    [
      'packed data that grow',
      'in/a.nhdr',
      {
        'in/a.nhdr': nrrdHeader('data file: b.gz', 9).replace('raw\n', 'gzip\n'),
        'in/b.gz': gzipSync(Buffer.alloc(1 << 22)),
      },
      /has more unpacked/,
    ],
    ['voxels of a pair', 'in/a.hdr', { 'in/a.hdr': pairHeader(348, 4), 'in/a.img': secret }, /is text/],
    ['voxels of Philips', 'in/a.par', { 'in/a.par': parHeader, 'in/a.rec': Buffer.alloc(2) }, /has 2 bytes/],
    [
      'voxels of AFNI',
      'in/a+orig.HEAD',
      { 'in/a+orig.HEAD': afniHeader, 'in/a+orig.BRIK': Buffer.alloc(2) },
      /has 2 bytes/,
    ],
  ])('A header does not cause %s to be sent', async (_, header, files, sentence) => {
    for (const named of ['in', header]) expect((await sent(files, {}, [named])).result).toMatch(sentence);
    const other = Object.keys(files).filter((name) => name !== header);
    // A person who names both means both.
    const both = await sent(files, {}, [header, ...other]);
    expect(both.result).toEqual([header, ...other]);
  });

  test('A header whose voxels are too few is refused, even if a person names both files', async () => {
    const files = { 'in/a.nhdr': nrrdHeader('data file: b.raw', 4), 'in/b.raw': Buffer.alloc(3) };
    expect((await sent(files, {}, ['in'])).result).toMatch(/has 3 bytes, and its header says 4/);
    expect((await sent(files, {}, ['in/a.nhdr', 'in/b.raw'])).result).toBe(
      "'in/a.nhdr' is cut short: its header says 4 bytes of voxels, and 3 are there. Copy it again from the original",
    );
  });

  test.each<[string, Files]>([
    [
      'behind other bytes',
      { 'in/a.mhd': metaHeader('b', 2).replace('NDims', 'HeaderSize = 3\nNDims'), 'in/b': Buffer.alloc(5) },
    ],
    [
      'packed with gzip',
      {
        'in/a.nhdr': nrrdHeader('data file: b', 9).replace('raw\n', 'gzip\n'),
        'in/b': gzipSync(Buffer.alloc(9)),
      },
    ],
    [
      'packed with zlib',
      {
        'in/a.mhd': metaHeader('b', 9).replace('NDims', 'CompressedData = True\nNDims'),
        'in/b': deflateSync(Buffer.alloc(9)),
      },
    ],
    [
      'of four channels',
      {
        'in/a.mhd': metaHeader('b', 2).replace('NDims', 'ElementNumberOfChannels = 4\nNDims'),
        'in/b': Buffer.alloc(8),
      },
    ],
    ['of NIfTI-2', { 'in/a.hdr': pairHeader(540, 4), 'in/a.img': Buffer.alloc(4) }],
  ])('A file that a header names is sent only as its voxels, which are %s', async (_, files) => {
    expect((await sent(files, {}, ['in'])).result).toEqual(Object.keys(files));
  });

  test('Voxels are not sent through a link that leads outside of what was named, except to the content of their own git-annex', async () => {
    const files = { 'in/a.mhd': metaHeader('a.raw', 4), 'key/a': Buffer.alloc(4) };
    const out = await sent(files, { 'in/a.raw': '../key/a' }, ['in/a.mhd']);
    expect(out.result).toMatch(/a\.raw' leads to 'key\/a', outside of what was named/);
    const own = { 'in/a.mhd': metaHeader('a.raw', 4), '.git/annex/objects/K/K': Buffer.alloc(4) };
    const annexed = await sent(own, { 'in/a.raw': '../.git/annex/objects/K/K' }, ['in']);
    expect(annexed.result).toEqual(['in/a.mhd', 'in/a.raw']);
    expect(annexed.notes).toEqual([expect.stringMatching(/^1 link leads out of what was named/)]);
    const foreign = await sent(
      { ...files, 'else/.git/annex/objects/K': Buffer.alloc(4) },
      { 'in/a.raw': '../else/.git/annex/objects/K' },
      ['in'],
    );
    expect(foreign.result).toMatch(/outside of what was named/);
  });
});

describe('a link', () => {
  const files = {
    'home/id_rsa': secret,
    'home/scan.nii': pairHeader(),
    'home/.netrc': secret,
    'in/ok.nii': pairHeader(),
  };
  test.each(['in', 'in/a.nii', 'in/*.nii', 'in/*'])(
    'A link to a secret is refused if it is named as %s',
    async (named) => {
      const { result } = await sent(files, { 'in/a.nii': '../home/id_rsa' }, [named]);
      expect(result).toMatch(
        /in\/a\.nii' leads to 'home\/id_rsa', outside of what was named, and is not recognised/,
      );
    },
  );

  test.each<[string, Links]>([
    ['to a hidden file inside of what was named', { 'in/a.nii': '.env' }],
    ['through another link', { 'in/a.nii': 'b/id_rsa', 'in/b': '../home' }],
    ['with a name of DICOM', { 'in/a.dcm': '../home/id_rsa' }],
    ['with the name of a packed directory', { 'in/a.konfaidir.zip': '../home/id_rsa' }],
    ['with the name of raw voxels', { 'in/a.raw': '../home/id_rsa' }],
  ])('A link is refused: %s', async (_, links) => {
    const { result } = await sent({ ...files, 'in/.env': secret }, links, ['in']);
    expect(result).toMatch(/outside of what was named/);
  });

  test.each(['in/*/*.nii', 'in/**/*.nii'])('A link to a secret directory is refused: %s', async (named) => {
    const elsewhere = { 'home/key.nii': secret, 'in/own/ok.nii': pairHeader() };
    const { result } = await sent(elsewhere, { 'in/sub': '../home' }, [named]);
    expect(result).toMatch(/in\/sub\/key\.nii' leads to 'home\/key\.nii', outside of what was named/);
  });

  test('A link to a volume elsewhere is followed and reported', async () => {
    for (const [links, name] of [
      [{ 'in/a.nii': '../home/scan.nii' }, 'in/a.nii'],
      [{ 'in/sub': '../home' }, 'in/sub/scan.nii'],
    ] as const) {
      const { result, notes } = await sent(files, links, ['in']);
      expect(result).toEqual([name, 'in/ok.nii'].sort());
      expect(notes).toContainEqual(
        `1 link leads out of what was named, to volumes, and is followed: ${name} -> home/scan.nii`,
      );
    }
  });

  test('A link to a file without a format is not followed, and is refused with --all-files', async () => {
    const links = { 'in/notes': '../home/id_rsa' };
    expect((await sent(files, links, ['in'])).result).toEqual(['in/ok.nii']);
    expect((await sent(files, links, ['in'], true)).result).toMatch(/in\/notes' leads to/);
    expect((await sent({ 'home/id_rsa': secret, 'in/': '' }, links, ['in'])).result).toMatch(
      /is not a volume/,
    );
  });

  test('A link in a data set is subject to the same rule', async () => {
    await using root = await place(files, { 'in/a.nii': '../home/id_rsa' });
    const operation = operationOf('fine_tune');
    const archive = { field: fieldWithRole(operation, 'paths'), path: path.join(root.path, 'in') };
    const submission = { operation, app: 'x', fields: {}, options: {}, files: [], archive };
    await expect(stage(submission, memoryReporter(), undefined)).rejects.toThrow(
      /id_rsa', outside of what was named/,
    );
  });
});

describe('a Zarr store', () => {
  /** The names of the files that leave with a store. */
  async function keys(files: Files, links: Links = {}, named = 'in') {
    await using root = await place(files, links);
    const units = await findVolumes([path.join(root.path, named)]).catch((error: Error) =>
      root.short(error.message),
    );
    if (typeof units === 'string') return units;
    return units.flatMap((unit) =>
      unit.kind === 'store' ? unit.files.map(({ name }) => name) : [root.short(unit.path)],
    );
  }

  test.each(['1', '{}', '{"zarr_format": 3}', '{"zarr_format": 3, "node_type": "x"}', 'not JSON', '[]'])(
    'A zarr.json of %j does not make a Zarr store',
    async (content) => {
      const files = { 'in/zarr.json': content, 'in/.env': secret, 'in/a.nii': 'x' };
      expect(await keys(files)).toEqual(['in/a.nii']);
      expect(await keys({ 'in.zarr/zarr.json': content, 'in.zarr/key': secret }, {}, 'in.zarr')).toMatch(
        /valid metadata/,
      );
    },
  );

  test('A Zarr store is sent only with its metadata and chunks, and other files are named', async () => {
    const strays = {
      'in/s.zarr/.env': secret,
      'in/s.zarr/.git/config': secret,
      'in/s.zarr/notes.txt': secret,
      'in/s.zarr/0/1': secret,
      'in/s.zarr/0/id_rsa': secret,
      'in/s.zarr/0/00': secret,
    };
    const { result, notes } = await sent({ ...zarrStore('in/s.zarr'), ...strays }, {}, ['in']);
    expect(result).toEqual(['in/s.zarr']);
    expect(notes).toEqual([
      expect.stringMatching(/^Not part of their Zarr store, and not sent: .*\.env'.*\.git'/),
    ]);
    expect(await keys({ ...zarrStore('in/s.zarr'), ...strays })).toEqual(['.zgroup', '0/.zarray', '0/0']);
  });

  test.each<[string, string, object, Buffer]>([
    ['empty', '.zarray', { compressor: { id: 'zstd' } }, Buffer.alloc(0)],
    ['not packed', '.zarray', { dtype: '<u2', compressor: null, filters: null }, Buffer.alloc(11)],
    ['packed by Blosc', '.zarray', { compressor: { id: 'blosc' } }, blosc.subarray(0, 18)],
    ['in the header of Blosc', '.zarray', { compressor: { id: 'blosc' } }, blosc.subarray(0, 9)],
    ['of version 3', 'zarr.json', { codecs: [{ name: 'bytes' }] }, Buffer.alloc(5)],
  ])('A Zarr store with a truncated chunk is refused: %s', async (_, metadata, more, chunk) => {
    const array2 = { zarr_format: 2, shape: [4, 3], chunks: [2, 3], ...more };
    const files = (bytes: Buffer) => ({
      [`in/${metadata}`]: metadata === '.zarray' ? JSON.stringify(array2) : array3(more),
      [metadata === '.zarray' ? 'in/0.0' : 'in/c/0/0']: bytes,
    });
    expect(await keys(files(chunk))).toMatch(/0' is a chunk of a Zarr store and cut short; copy it again/);
    expect(await keys(files(blosc))).toHaveLength(2);
  });

  const array3 = (more: object) =>
    JSON.stringify({
      ...{ zarr_format: 3, node_type: 'array', shape: [4, 3], data_type: 'uint8' },
      chunk_grid: { name: 'regular', configuration: { chunk_shape: [2, 3] } },
      ...{ chunk_key_encoding: { name: 'default', configuration: { separator: '/' } }, ...more },
    });
  test.each<[string, Files, string[]]>([
    [
      'of version 3',
      {
        'zarr.json': array3({}),
        'c/0/0': '1',
        'c/1/0': '1',
        'c/2/0': secret,
        'c/0/1': secret,
        '0/0': secret,
      },
      ['zarr.json', 'c/0/0', 'c/1/0'],
    ],
    [
      'of version 3, in a group',
      {
        'zarr.json': '{"zarr_format": 3, "node_type": "group"}',
        '0/zarr.json': array3({}),
        '0/c/0/0': '1',
        '1/c/0/0': secret,
      },
      ['zarr.json', '0/zarr.json', '0/c/0/0'],
    ],
    [
      'of version 3, with dots',
      {
        'zarr.json': array3({ chunk_key_encoding: { name: 'default', configuration: { separator: '.' } } }),
        'c.0.0': '1',
        'c.0': secret,
      },
      ['zarr.json', 'c.0.0'],
    ],
    [
      'of version 3, with keys of version 2',
      { 'zarr.json': array3({ chunk_key_encoding: { name: 'v2' } }), '1.0': '1', '1.0.0': secret },
      ['zarr.json', '1.0'],
    ],
    [
      'of one number',
      {
        '.zarray': '{"zarr_format": 2, "shape": [], "chunks": []}',
        '.zattrs': '{"a": NaN}',
        '0': '1',
        '1': secret,
      },
      ['.zarray', '.zattrs', '0'],
    ],
  ])('A Zarr store has the keys that an array implies %s', async (_, files, names) => {
    const planted = Object.fromEntries(
      Object.entries(files).map(([name, content]) => [`in/${name}`, content]),
    );
    expect(await keys(planted)).toEqual(names);
  });

  test.each<[string, Files, Links, RegExp]>([
    [
      'a link of a group to a home',
      {},
      { 'in/s.zarr/1': '../../home' },
      /s\.zarr\/1' leads to 'home', outside/,
    ],
    [
      'a link of a chunk',
      {
        'in/s.zarr/0/.zarray': '{"zarr_format": 2, "shape": [2], "chunks": [1], "dimension_separator": "/"}',
      },
      { 'in/s.zarr/0/1': '../../../home/id_rsa' },
      /0\/1' leads to 'home\/id_rsa'/,
    ],
    [
      'a link of its metadata',
      {},
      { 'in/s.zarr/.zattrs': '../../home/a.json' },
      /\.zattrs' leads to 'home\/a\.json'/,
    ],
    ['broken metadata', { 'in/s.zarr/0/.zarray': secret }, {}, /is not valid metadata of a Zarr store/],
  ])('A store of Zarr is refused with %s', async (_, files, links, sentence) => {
    const home = { 'home/id_rsa': secret, 'home/a.json': '{"token": "x"}' };
    expect(await keys({ ...zarrStore('in/s.zarr'), ...files, ...home }, links)).toMatch(sentence);
  });
});

describe('the files that show reads', () => {
  test.each<[string, Files, Links]>([
    ['a header', { 'in/a.mhd': metaHeader('tax.pdf', 9), 'in/tax.pdf': '%PDF-1.7\n' }, {}],
    [
      'a link of voxels',
      { 'in/a.mhd': metaHeader('a.raw', 4), home: Buffer.alloc(4) },
      { 'in/a.raw': '../home' },
    ],
    [
      'a header of a subdirectory',
      { 'in/a.mhd': metaHeader('b/key', 4), 'in/b/key': Buffer.from('abcd') },
      {},
    ],
    [
      'voxels of a pair',
      { 'in/a.hdr': pairHeader(348, secret.length), home: secret },
      { 'in/a.img': '../home' },
    ],
  ])('The command show applies the same rule to %s', async (_, files, links) => {
    await using root = await place(files, links);
    const units = await findVolumes([path.join(root.path, 'in')]);
    expect(units.length).toBeGreaterThan(0);
    for (const unit of units) expect(unit).toMatchObject({ fault: expect.any(String) });
  });
});
