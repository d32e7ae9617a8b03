import { expect, test } from 'vitest';
import { operations } from '../../../src/contract/index.js';
import { checkStated, limitsOf, SubmissionQuota, within } from '../../../src/server/submissions/limits.js';

const mebibyte = 1 << 20;
const settings = {
  maxFileSize: 2 * mebibyte,
  maxUploadSize: 6 * mebibyte,
  maxDatasetSize: null,
  requireDeidentified: false,
};
const plain = { maxFileSize: 2 * mebibyte, maxUploadSize: 6 * mebibyte };
const ofAdmin = "; an admin sets it with 'serve --max-dataset-size'";

test('a data set has limits of its own if the admin sets them, and a refusal says whose they are', () => {
  expect(limitsOf(settings, operations.infer)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: '',
  });
  expect(limitsOf(settings, operations.fine_tune)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: ofAdmin,
  });
  const large = { ...settings, maxDatasetSize: 90 * mebibyte };
  expect(limitsOf(large, operations.infer)).toEqual({
    ...plain,
    maxExtractedSize: 60 * mebibyte,
    advice: '',
  });
  const max = 90 * mebibyte;
  expect(limitsOf(large, operations.fine_tune)).toEqual({
    maxFileSize: max,
    maxUploadSize: max,
    maxExtractedSize: max,
    advice: ofAdmin,
  });
});

test('a smaller limit of an owner replaces them, and a larger one does not', () => {
  const limits = limitsOf(settings, operations.infer);
  const advice = " of the token 'ana'";
  expect(within(limits, { bytes: 6 * mebibyte, advice })).toBe(limits);
  expect(within(limits, { bytes: null, advice })).toBe(limits);
  expect(within(limits, { bytes: 3 * mebibyte, advice })).toEqual({
    ...limits,
    maxUploadSize: 3 * mebibyte,
    advice,
  });
  expect(within(limits, { bytes: mebibyte, advice })).toMatchObject({
    maxUploadSize: mebibyte,
    maxFileSize: mebibyte,
  });
});

test('bytes count as they arrive: of each file, of all files, and of what is around them', () => {
  const quota = new SubmissionQuota({ ...limitsOf(settings, operations.infer), advice: ' of mine' });
  quota.addContent(2 * mebibyte, 2 * mebibyte, 'a.nii');
  const fileTooLarge = "File 'b.nii' is larger than the limit of 2.0 MiB of mine";
  expect(() => quota.checkFile(2 * mebibyte + 1, 'b.nii')).toThrow(fileTooLarge);
  expect(() => quota.addContent(0, 2 * mebibyte + 1, 'b.nii')).toThrow(fileTooLarge);
  quota.addContent(2 * mebibyte, 2 * mebibyte, 'b.nii');
  quota.addContent(2 * mebibyte, 2 * mebibyte, 'c.nii');
  const tooLarge = 'The upload is larger than the limit of 6.0 MiB of mine';
  expect(() => quota.addContent(1, 1, 'd.nii')).toThrow(tooLarge);
  // Half a mebibyte beside the texts, and a kibibyte for each part.
  const max = 7.5 * mebibyte + 3 * 1024;
  quota.checkRequest(max, 3);
  expect(() => quota.checkRequest(max + 1, 3)).toThrow(tooLarge);
});

test('fields, their texts and files are counted', () => {
  const quota = new SubmissionQuota(limitsOf(settings, operations.infer));
  for (let count = 0; count < 1000; count += 1) quota.addField('tta');
  expect(() => quota.addField('tta')).toThrow('The submission has more than 1000 fields; send each once');
  quota.addText(mebibyte);
  expect(() => quota.addText(1)).toThrow('The texts of the submission are longer than 1048576 bytes');
  for (let count = 0; count < 20_000; count += 1) quota.addFile('inputs', 'a.nii');
  expect(() => quota.addFile('inputs', 'a.nii')).toThrow('The submission has more than 20000 files');
  const names = new SubmissionQuota(limitsOf(settings, operations.infer));
  names.addField('x'.repeat(200));
  expect(() => names.addField('x'.repeat(201))).toThrow(/has a name of more than 200 characters$/);
  names.addFile('inputs', 'n'.repeat(4096));
  expect(() => names.addFile('inputs', 'n'.repeat(4097))).toThrow(/has a file whose name is too long/);
});

test('a request that states too much is refused before it is read', () => {
  const limits = limitsOf(settings, operations.infer);
  // As many parts as files of 4 KiB: 1536.
  const max = 7.5 * mebibyte + 1536 * 1024;
  checkStated(max, limits);
  expect(() => checkStated(max + 1, limits)).toThrow('The upload is larger than the limit of 6.0 MiB');
});
