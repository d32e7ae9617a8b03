import { describe, expect, test } from 'vitest';
import { namesOf } from '../../../src/imaging/inputs/names.js';

describe('the names of sent files', () => {
  test.each<[string, string[], string[]]>([
    ['stay where they differ', ['a/T1w.nii.gz', 'b/FLAIR.nii.gz'], ['T1w.nii.gz', 'FLAIR.nii.gz']],
    [
      'keep the part of the path that differs',
      ['sub-01/anat/T1w.nii.gz', 'sub-02/anat/T1w.nii.gz'],
      ['sub-01_T1w.nii.gz', 'sub-02_T1w.nii.gz'],
    ],
    [
      'keep all parts that are needed',
      ['s/sub-01/ses-1/anat/T1w.nii', 's/sub-01/ses-2/anat/T1w.nii', 's/sub-02/ses-1/anat/T1w.nii'],
      ['sub-01_ses-1_T1w.nii', 'sub-01_ses-2_T1w.nii', 'sub-02_ses-1_T1w.nii'],
    ],
    [
      'change only for files that share a name',
      ['a/T1w.nii', 'b/T1w.nii', 'c/T2w.nii'],
      ['a_T1w.nii', 'b_T1w.nii', 'T2w.nii'],
    ],
    ['have no backslash, behind which a server looks for them', ['a\\b.nii', 'b.nii'], ['a_b.nii', 'b.nii']],
    [
      'have nothing that a form cannot carry',
      ['a\nb.nii', '50%22.nii', 'a%0ab.nii', '50%.nii'],
      ['a_b.nii', '50_22.nii', 'a_0ab.nii', '50%.nii'],
    ],
    ['differ for a directory and one in it', ['x/ct.nii', 'x/old/ct.nii'], ['x_ct.nii', 'x_old_ct.nii']],
    ['differ on file systems that fold case', ['a/CT.nii', 'b/ct.nii'], ['a_CT.nii', 'b_ct.nii']],
    [
      'stay for two files of one directory that differ in case',
      ['a/CT.nii', 'a/ct.nii'],
      ['CT.nii', 'ct.nii'],
    ],
    [
      'are never the name of another file',
      ['a/ct.nii', 'b/ct.nii', 'c/a_ct.nii'],
      ['a_ct_1.nii', 'b_ct.nii', 'a_ct.nii'],
    ],
    [
      'are numbered if the paths give no difference',
      ['a/b/ct.nii', 'a_b/ct.nii'],
      ['a_b_ct.nii', 'a_b_ct_1.nii'],
    ],
    [
      'are numbered for a file that is named twice',
      ['a/ct.nii.gz', 'a/ct.nii.gz'],
      ['ct.nii.gz', 'ct_1.nii.gz'],
    ],
    [
      'have no dots of directories',
      ['1.2.840/ct.nii.gz', '1.2.841/ct.nii.gz'],
      ['1-2-840_ct.nii.gz', '1-2-841_ct.nii.gz'],
    ],
    [
      'have no runs of dots either, nor begin with one',
      ['..a/ct.nii', '1..2/ct.nii'],
      ['a_ct.nii', '1-2_ct.nii'],
    ],
    ['differ for a directory in one of its name', ['b/ct.nii', 'b/b/ct.nii'], ['b_ct.nii', 'b_b_ct.nii']],
    ['differ for series', ['sub-01/CT', 'sub-02/CT/'], ['sub-01_CT', 'sub-02_CT']],
    ['differ for archives of volumes', ['a/ct.konfaidir.zip', 'b/ct'], ['a_ct', 'b_ct']],
    [
      'are alike for files that belong together',
      ['a/v.hdr', 'a/v.img', 'b/v.hdr', 'b/v.img.gz'],
      ['a_v.hdr', 'a_v.img', 'b_v.hdr', 'b_v.img.gz'],
    ],
  ])('The names of sent files of one group %s', (_, paths, names) => {
    expect(namesOf(paths)).toEqual(names);
    expect(namesOf(paths.map((each) => `/data/study.1/${each}`))).toEqual(names);
  });

  test('The names of sent files of one group do not depend on the order of the paths', () => {
    const paths = ['s/01/T1w.nii', 's/02/T1w.nii', 's/03/old/T1w.nii', 's/T2w.nii'];
    expect(namesOf(paths.toReversed())).toEqual(namesOf(paths).toReversed());
  });

  test('The names of sent files of one group fit into 255 bytes and still differ', () => {
    const long = `${'é'.repeat(120)}.nii.gz`;
    const names = namesOf([
      `sub-01/${long}`,
      `sub-02/${long}`,
      `${'d'.repeat(200)}1/${long}`,
      `${'d'.repeat(200)}2/${long}`,
    ]);
    expect(new Set(names).size).toBe(4);
    for (const name of names) {
      expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
      expect(name.endsWith('.nii.gz')).toBe(true);
    }
  });
});
