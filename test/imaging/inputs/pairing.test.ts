import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { type OperationName, operationOf } from '../../../src/contract/operations.js';
import { memoryReporter } from '../../client/support/connect.js';
import { stage } from '../../client/support/stage.js';
import { plant, temporary } from '../../support/temporary.js';

type Groups = Readonly<Record<string, readonly (readonly string[])[]>>;

/** What is sent of groups of files, which are made: of each group the paths, and the notes. */
async function send(name: OperationName, given: Groups, made: readonly string[] = []) {
  await using root = await temporary();
  const named = Object.values(given)
    .flat(2)
    .filter((each) => /^[^*]+\.\w+$/.test(each));
  await plant(root.path, Object.fromEntries([...named, ...made].map((each) => [each, 'x'])));
  const operation = operationOf(name);
  const files = operation.fields
    .filter((field) => given[field.name])
    .map((field) => ({
      field,
      groups: (given[field.name] ?? []).map((group) => group.map((each) => path.join(root.path, each))),
    }));
  const reporter = memoryReporter();
  const submission = { operation, app: 'x', fields: {}, options: {}, files, archive: null };
  const staged = await stage(submission, reporter, undefined);
  await staged[Symbol.asyncDispose]();
  const short = (text: string) => text.replaceAll(`${root.path}${path.sep}`, '');
  const groups = Object.values(staged.sending.sent).flat();
  return {
    groups: groups.map((group) => group.map((each) => path.basename(each.path)).join(' ')),
    parts: staged.parts.map((part) => path.basename(part.path)).join(' '),
    notes: reporter.notes.map(short),
  };
}

const numbers = [1, 2, 10];

describe('files of several groups', () => {
  test('Files of several groups from directories are in the same order, whatever follows their numbers', async () => {
    const made = numbers.flatMap((each) => [`pred/case${each}.nii.gz`, `gt/case${each}_gt.nii.gz`]);
    expect(await send('evaluate', { inputs: [['pred']], gt: [['gt']] }, made)).toEqual({
      groups: ['case1.nii.gz case2.nii.gz case10.nii.gz', 'case1_gt.nii.gz case2_gt.nii.gz case10_gt.nii.gz'],
      parts: 'case1.nii.gz case2.nii.gz case10.nii.gz case1_gt.nii.gz case2_gt.nii.gz case10_gt.nii.gz',
      notes: [],
    });
  });

  test('Files of several groups that a shell has sorted are paired by name with those of a directory, with a note', async () => {
    const expanded = ['p/case1.nii', 'p/case10.nii', 'p/case2.nii'];
    const made = numbers.flatMap((each) => [`gt/case${each}_gt.nii.gz`, `mask/case${each}-body.mha`]);
    const sent = await send('pipeline', { inputs: [expanded], gt: [['gt']], mask: [['mask/*.mha']] }, made);
    expect(sent.groups).toEqual([
      'case1.nii case10.nii case2.nii',
      'case1_gt.nii.gz case10_gt.nii.gz case2_gt.nii.gz',
      'case1-body.mha case10-body.mha case2-body.mha',
    ]);
    expect(sent.parts).toBe(sent.groups.join(' '));
    expect(sent.notes).toEqual([
      'Files are paired by name, because the groups are in different orders: p/case1.nii with gt/case1_gt.nii.gz, ' +
        'p/case10.nii with gt/case10_gt.nii.gz, p/case2.nii with gt/case2_gt.nii.gz',
      expect.stringMatching(/^Files are paired by name.*p\/case2\.nii with mask\/case2-body\.mha$/),
    ]);
  });

  test.each<[string, string[], string[], string]>([
    ['a word before', ['a.nii', 'b.nii'], ['seg_b.nii', 'seg_a.nii'], 'seg_a.nii seg_b.nii'],
    [
      'letters that all names share',
      ['anna.nii', 'anton.nii'],
      ['anton_gt.mha', 'anna_gt.mha'],
      'anna_gt.mha anton_gt.mha',
    ],
    ['digits that all names share', ['1.nii', '11.nii'], ['t11.nii', 't1.nii'], 't1.nii t11.nii'],
    ['directories that become names', ['x/2/t.nii', 'x/1/t.nii'], ['y/1/s.nii', 'y/2/s.nii'], 's.nii s.nii'],
  ])('Files of several groups are paired despite %s', async (_, first, second, ordered) => {
    const { groups, notes } = await send('infer', {
      inputs: [first, second.map((each) => `second/${each}`)],
    });
    expect(groups[1]).toBe(ordered);
    expect(notes.filter((note) => note.startsWith('Files are paired'))).toEqual([
      expect.stringContaining('Files are paired by name'),
    ]);
  });

  test.each<[string, Groups]>([
    ['one for all', { inputs: [['a.nii', 'b.nii']], gt: [['g/a.nii', 'g/b.nii']], mask: [['mask.nii']] }],
    ['one for each', { inputs: [['a.nii']], gt: [['other.nii']] }],
    ['equal keys', { inputs: [['t1/s2.nii', 't1/s1.nii']], gt: [['s2_gt.nii', 's1_gt.nii']] }],
    ['one group', { inputs: [['b.nii', 'a.nii']] }],
  ])('No note about pairing is shown if nothing is in doubt: %s', async (_, given) => {
    const { notes, groups } = await send('evaluate', { gt: [['x.nii']], ...given });
    expect(notes).toEqual([]);
    expect(groups[0]).toBe(given.inputs?.[0]?.map((each) => path.basename(each)).join(' '));
  });

  test('Files of several groups whose names do not match keep their order, and a note says what is paired', async () => {
    const first = numbers.map((each) => `p/${each}.nii`);
    const others = ['g/head.nii', 'g/arm.nii', 'g/leg.nii'];
    const { groups, notes } = await send('evaluate', { inputs: [first], gt: [others] });
    expect(groups[1]).toBe('head.nii arm.nii leg.nii');
    expect(notes).toEqual([
      'Files are paired by order, because their names do not match: p/1.nii with g/head.nii, p/2.nii with g/arm.nii, ' +
        'p/10.nii with g/leg.nii',
    ]);
  });

  test('Files of several groups keep their order if two have the same key, or if they are crossed on purpose', async () => {
    const twice = await send('infer', {
      inputs: [
        ['a.nii', 'b.nii'],
        ['c/b.nii', 'c/b.mha'],
      ],
    });
    expect(twice.groups[1]).toBe('b.nii b.mha');
    const first = await send('infer', {
      inputs: [
        ['a.nii', 'a.mha'],
        ['c/b.nii', 'c/b1.nii'],
      ],
    });
    expect(first.groups[1]).toBe('b.nii b1.nii');
    expect(first.notes).toContain(
      'Files are paired by order, because their names do not match: a.nii with c/b.nii, a.mha with c/b1.nii',
    );
    const crossed = await send('infer', {
      inputs: [
        ['pre.nii', 'post.nii'],
        ['post.nii', 'pre.nii'],
      ],
    });
    expect(crossed.groups[1]).toBe('post.nii pre.nii');
    expect(crossed.notes).toEqual([
      'Files are paired by order, because their names do not match: pre.nii with post.nii, post.nii with pre.nii',
    ]);
  });

  test('Groups of different sizes are listed as far as their files pair up, at most five pairs', async () => {
    const inputs = Array.from({ length: 8 }, (_, at) => `p/${at}.nii`);
    const gt = Array.from({ length: 7 }, (_, at) => `g/${at + 1}.nii`);
    const { notes } = await send('evaluate', { inputs: [inputs], gt: [gt] });
    expect(notes).toEqual([
      expect.stringMatching(
        /^The groups have 8 and 7 files, which are paired by order: p\/0\.nii with g\/1\.nii, .* and 2 more$/,
      ),
    ]);
  });

  test('Files of several groups are paired whatever the Unicode form and the case of their names', async () => {
    const [first, second] = ['m\u00fcl_1', 'm\u00fcl_2'];
    const made = [
      `p/${first}.nii.gz`,
      `p/${second}.nii.gz`,
      `g/${second.normalize('NFD').toUpperCase()}_gt.nii.gz`,
      `g/${first.normalize('NFD')}_GT.nii.gz`,
    ];
    const { groups } = await send('evaluate', { inputs: [['p']], gt: [['g']] }, made);
    expect(groups[1]?.normalize('NFC').toLowerCase()).toBe('mül_1_gt.nii.gz mül_2_gt.nii.gz');
  });

  test('Files of several groups of directories whose names do not match are refused, with both lists', async () => {
    const made = ['p/a.nii', 'p/b.nii', 'g/x.nii', 'g/y.nii', 'g/z.nii'];
    const sent = (gt: string) => send('evaluate', { inputs: [['p']], gt: [[gt]] }, made);
    await expect(sent('g/[xy]*.nii')).rejects.toThrow(
      /^2 of 2 cases have no file in --gt: '.*a\.nii', '.*b\.nii'; 2 files of --gt belong to no case: '.*x\.nii', '.*y\.nii'; give/,
    );
    await expect(sent('g')).rejects.toThrow(
      /3 files of --gt belong to no case: .*, or name all files in the order in which they belong together$/,
    );
  });

  test('Predictions of nnU-Net in several groups are paired without their probabilities', async () => {
    const made = numbers.flatMap((each) => [
      ...['nii.gz', 'npz', 'pkl'].map((ending) => `p/case_${each}.${ending}`),
      `g/case_${each}.nii.gz`,
    ]);
    const { groups, notes } = await send('evaluate', { inputs: [['p']], gt: [['g']] }, made);
    expect(groups[0]).toBe('case_1.nii.gz case_2.nii.gz case_10.nii.gz');
    expect(groups[1]).toBe(groups[0]);
    expect(notes).toEqual([expect.stringMatching(/^6 files that are not volumes were not sent/)]);
  });

  test('Files of several groups are refused if their names pair them otherwise than their folders', async () => {
    const made = ['pred/P1/s/x2.nii', 'pred/P2/s/x1.nii', 'gt/P1/s/x1.nii', 'gt/P2/s/x2.nii'];
    const groups = { inputs: [['pred']], gt: [['gt']] };
    await expect(send('evaluate', groups, made)).rejects.toThrow(
      /have no file in --gt: '.*pred\/P1\/s\/x2\.nii', .* belong to no case: .*'.*gt\/P2\/s\/x2\.nii';/,
    );
    // Typed in this order, they are meant to be pairs.
    const typed = { inputs: [made.slice(0, 2)], gt: [['gt/P2/s/x2.nii', 'gt/P1/s/x1.nii']] };
    expect((await send('evaluate', typed)).groups).toEqual(['x2.nii x1.nii', 'x2.nii x1.nii']);
  });

  test('Single files of two people are one case only if both are named', async () => {
    const [one, two] = ['p/sub-01_T1w.nii', 'g/sub-02_seg.nii'];
    const sent = (...groups: string[]) => send('infer', { inputs: groups.map((each) => [each]) }, [one, two]);
    await expect(sent('p', 'g')).rejects.toThrow(
      /1 of 1 case has no file in group 2 of --inputs: '.*sub-01_T1w/,
    );
    expect((await sent(one, two)).groups).toEqual(['sub-01_T1w.nii', 'sub-02_seg.nii']);
  });
});
