import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../../src/client/errors.js';
import { fieldWithRole, operationOf } from '../../../src/contract/operations.js';
import { memoryReporter } from '../../client/support/connect.js';
import { stage } from '../../client/support/stage.js';
import {
  afniHeader,
  metaHeader as meta,
  nrrdHeader as nrrd,
  pairHeader as pair,
  parHeader,
} from '../../support/headers.js';
import { plant, temporary } from '../../support/temporary.js';

type Files = Readonly<Record<string, string | Buffer>>;

/** What is sent of groups of inputs, which are all files but where they are named: of each group paths and names. */
async function send(files: Files, groups: readonly (readonly string[])[]) {
  await using root = await temporary();
  await plant(root.path, files);
  const operation = operationOf('infer');
  const named = groups.map((group) => group.map((each) => path.join(root.path, each)));
  const given = [{ field: fieldWithRole(operation, 'paths'), groups: named }];
  const submission = { operation, app: 'x', fields: {}, options: {}, files: given, archive: null };
  const reporter = memoryReporter();
  const short = (text: string) => text.replaceAll(`${root.path}${path.sep}`, '');
  try {
    const staged = await stage(submission, reporter, undefined);
    await staged[Symbol.asyncDispose]();
    const groupsSent = staged.sending.sent.inputs ?? [];
    return {
      sent: groupsSent.map((group) => group.map((each) => `${short(each.path)} ${each.name}`)),
      notes: reporter.notes.map(short),
    };
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return short((error as Error).message);
  }
}

describe('a header whose voxels are in another file', () => {
  test.each<[string, Files, string[]]>([
    ['MetaImage', { 'x.mhd': meta('x.raw'), 'x.raw': '1' }, ['x.mhd', 'x.raw']],
    ['MetaImage, as .mha', { 'x.mha': meta('./v.zraw'), 'v.zraw': '1' }, ['x.mha', 'v.zraw']],
    [
      'MetaImage, with a per cent sign',
      { 'x.mhd': meta('50%d.raw'), '50%d.raw': '1' },
      ['x.mhd', '50%d.raw'],
    ],
    ['NRRD', { 'x.nhdr': nrrd('data file: x.raw.gz'), 'x.raw.gz': Buffer.from('1') }, ['x.nhdr', 'x.raw.gz']],
    ['NRRD, as .nrrd', { 'x.nrrd': nrrd('datafile: v.raw'), 'v.raw': '1' }, ['x.nrrd', 'v.raw']],
    ['ANALYZE', { 'x.hdr': pair(), 'x.img': '1' }, ['x.hdr', 'x.img']],
    ['NIfTI-2', { 'X.HDR': pair(540), 'X.IMG': '1' }, ['X.HDR', 'X.IMG']],
    ['a packed pair', { 'x.hdr.gz': gzipSync(pair()), 'x.img.gz': gzipSync('1') }, ['x.hdr.gz', 'x.img.gz']],
    [
      'a long header',
      { 'x.mhd': `Comment = ${'c'.repeat(9000)}\n${meta('x.raw')}`, 'x.raw': '1' },
      ['x.mhd', 'x.raw'],
    ],
  ])('A header whose voxels lie elsewhere is sent with them if it is named: %s', async (_, files, names) => {
    const whole = names.map((name) => `in/${name} ${name}`);
    const placed = Object.fromEntries(
      Object.entries(files).map(([name, content]) => [`in/${name}`, content]),
    );
    const lone = await send(placed, [[`in/${names[0]}`]]);
    expect(lone).toEqual({ sent: [whole], notes: [] });
    const all = await send(placed, [['in']]);
    expect(all).toEqual({ sent: [expect.arrayContaining(whole)], notes: [] });
  });

  test('A header whose voxels are in another file is added when only the voxels of a pair are named', async () => {
    const files = { 'a/x.hdr': pair(), 'a/x.img': '1' };
    expect(await send(files, [['a/x.img']])).toEqual({
      sent: [['a/x.hdr x.hdr', 'a/x.img x.img']],
      notes: [],
    });
    expect(await send({ 'a/x.img': '1' }, [['a/x.img']])).toEqual({
      sent: [['a/x.img x.img']],
      notes: ['Sent without a header, because there is none of the same name: a/x.img'],
    });
  });

  test.each<[string, Files, string]>([
    [
      'a pair of which each has lost the other half',
      { 'A/x.hdr': pair(), 'B/x.img': '2' },
      "'A/x.hdr' has its voxels in 'x.img', which is not beside it; put it there, or leave the header out; " +
        "1 more cannot be sent either: 'B/x.img'; 'remote-app inputs' says why",
    ],
    [
      'a header that no one can read, and the other half',
      { 'A/x.hdr': 'ENVI', 'B/x.img': '2' },
      "'B/x.img' would be taken for the voxels of 'A/x.hdr', which is in another directory; send them with separate " +
        'commands, or rename one',
    ],
    [
      'a pair and a packed half',
      { 'A/x.hdr': pair(), 'A/x.img': '1', 'B/x.img.gz': '2' },
      "'B/x.img.gz' would be taken for the voxels of 'A/x.hdr', which is in another directory; send them with " +
        'separate commands, or rename one',
    ],
    [
      'a header whose voxels have the name of others',
      { 'A/p1.mhd': meta('T1.raw'), 'B/T1.mhd': meta('T1.raw'), 'B/T1.raw': '2' },
      "'A/p1.mhd' has its voxels in 'T1.raw', which is not beside it; put it there, or leave the header out",
    ],
    [
      'headers with voxels of one name',
      { 'A/p1.mhd': meta('img.raw'), 'A/img.raw': '1', 'B/p2.mhd': meta('img.raw'), 'B/img.raw': '2' },
      "'A/p1.mhd' has its voxels in 'img.raw', which would be sent as 'A_img.raw', since another file has its name; send " +
        'them with separate commands, or give them different names, inside their headers as well; ' +
        "1 more cannot be sent either: 'B/p2.mhd'; 'remote-app inputs' says why",
    ],
    [
      'voxels below the header',
      { 'A/x.nhdr': nrrd('data file: sub/x.raw'), 'A/sub/x.raw': '1', 'B/y.nii': '2' },
      "'A/x.nhdr' has its voxels in 'sub/x.raw', and files are sent without their directories; put both into one " +
        'directory, with the name alone in the header',
    ],
    [
      'voxels under an absolute path',
      { 'A/x.mhd': meta('C:\\data\\x.raw'), 'B/y.nii': '2' },
      "'A/x.mhd' has its voxels in 'C:\\data\\x.raw', and files are sent without their directories; put both into one " +
        'directory, with the name alone in the header',
    ],
    [
      'empty voxels',
      { 'A/x.mhd': meta('x.txt'), 'A/x.txt': '', 'B/y.nii': '2' },
      "'A/x.txt' is empty (0 bytes)",
    ],
  ])('A header whose voxels lie elsewhere is refused if it is incomplete: %s', async (_, files, sentence) => {
    expect(await send(files, [['A', 'B']])).toBe(sentence);
  });

  test('A header whose voxels are in another file is never joined to voxels of another group or directory', async () => {
    const files = { 'A/x.hdr': pair(), 'A/x.img': '1', 'B/x.hdr': pair(), 'B/x.img': '2' };
    expect(await send(files, [['A', 'B']])).toMatchObject({
      sent: [['A/x.hdr A_x.hdr', 'A/x.img A_x.img', 'B/x.hdr B_x.hdr', 'B/x.img B_x.img']],
    });
    expect(await send(files, [['A/x.hdr'], ['B/x.img']])).toMatchObject({
      sent: [
        ['A/x.hdr x.hdr', 'A/x.img x.img'],
        ['B/x.hdr x.hdr', 'B/x.img x.img'],
      ],
    });
  });

  test.each<[string, string, string]>([
    ['in itself', 'x.mha', `${meta('LOCAL')}voxels\nElementDataFile = y.raw\n`],
    ['in itself', 'x.nrrd', `${nrrd('encoding: raw')}\ndata file: y.raw\n`],
    ['behind more than is read', 'x.mhd', `Comment = ${'c'.repeat(2 ** 20)}\n${meta('y.raw')}`],
    ['in a file that is not known', 'x.hdr', 'ENVI\nsamples = 3\n'],
  ])('A header whose voxels lie elsewhere is sent as it is with voxels %s: %s', async (_, name, content) => {
    expect(await send({ [name]: content }, [[name]])).toEqual({ sent: [[`${name} ${name}`]], notes: [] });
  });

  test.each<[string, string, string]>([
    ['a list', 'x.mhd', `${meta('LIST', 3)}1.raw\n2.raw\n3.raw\n`],
    ['a list of two dimensions', 'x.mhd', `${meta('LIST 2', 3)}1.raw\n2.raw\n3.raw\n`],
    [
      'a list behind a long header',
      'x.mhd',
      `Comment = ${'c'.repeat(4060)}\n${meta('LIST', 3)}1.raw\n2.raw\n3.raw\n`,
    ],
    ['a list', 'x.nhdr', nrrd('data file: LIST\n./1.raw\n2.raw\n3.raw', 3)],
    ['a pattern', 'x.mhd', meta('%d.raw 1 3 1', 3)],
    ['a pattern without a step', 'x.nhdr', nrrd('data file: %d.raw 1 3', 3)],
  ])('A header whose voxels lie elsewhere is sent with all files of %s: %s', async (_, name, content) => {
    const files = { [name]: content, '1.raw': '1', '2.raw': '2', '3.raw': '3' };
    const sent = [[name, '1.raw', '2.raw', '3.raw'].map((each) => `${each} ${each}`)];
    expect(await send(files, [[name]])).toEqual({ sent, notes: [] });
    expect(await send({ ...files, '3.raw': '' }, [[name]])).toMatch(/3\.raw' is empty/);
    const { '2.raw': _gone, ...rest } = files;
    expect(await send(rest, [[name]])).toMatch(/has its voxels in '2\.raw', which is not beside it/);
  });

  test.each([
    ['scan.PAR', 'scan.REC', parHeader],
    ['scan.par', 'scan.rec', parHeader],
    ['scan.par', 'scan.REC', parHeader],
    ['anat+orig.HEAD', 'anat+orig.BRIK', afniHeader],
    ['anat+tlrc.HEAD', 'anat+tlrc.BRIK.gz', afniHeader],
    ['old.HDR', 'old.IMG', pair()],
  ])(
    'A header whose voxels lie elsewhere is sent with them by either name: %s, %s',
    async (header, voxels, start) => {
      const files = { [header]: start, [voxels]: voxels.endsWith('.gz') ? gzipSync('1') : '1' };
      const sent = [[`${header} ${header}`, `${voxels} ${voxels}`]];
      expect(await send(files, [[header]])).toEqual({ sent, notes: [] });
      expect(await send(files, [[voxels]])).toEqual({ sent, notes: [] });
    },
  );

  test('A header with voxels packed by bzip2 is refused if they are truncated, whichever of the two files is named', async () => {
    const bzip2 = 'QlpoOTFBWSZTWXdLsBQAAAAAgABAIAAhGEaC7kinChIO6XYCgA==';
    const files = { 'a+orig.HEAD': afniHeader, 'a+orig.BRIK.bz2': Buffer.from(bzip2, 'base64') };
    const cut = { ...files, 'a+orig.BRIK.bz2': Buffer.from(bzip2, 'base64').subarray(0, -2) };
    for (const name of ['a+orig.HEAD', 'a+orig.BRIK.bz2']) {
      expect(await send(files, [[name]])).toMatchObject({ notes: [] });
      expect(await send(cut, [[name]])).toMatch(
        /^'a\+orig\.BRIK\.bz2' is cut short: the end of its packed data/,
      );
    }
  });

  test('A header whose voxels are in another file counts once when groups are paired', async () => {
    const files = { 't/1.mhd': meta('1.raw'), 't/1.raw': '1', 't/2.mhd': meta('2.raw'), 't/2.raw': '2' };
    const { sent, notes } = (await send({ ...files, 'f/2.nii': '2', 'f/1.nii': '1' }, [
      ['f/2.nii', 'f/1.nii'],
      ['t'],
    ])) as { sent: string[][]; notes: string[] };
    expect(sent[1]).toEqual(['t/2.mhd 2.mhd', 't/2.raw 2.raw', 't/1.mhd 1.mhd', 't/1.raw 1.raw']);
    expect(notes).toEqual([expect.stringContaining('f/2.nii with t/2.mhd, f/1.nii with t/1.mhd')]);
  });
});
