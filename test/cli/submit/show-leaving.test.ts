import { expect, test } from 'vitest';
import { tellLeaving, typedOf } from '../../../src/cli/submit/show-leaving.js';
import type { Reporter } from '../../../src/client/reporter.js';
import { operationOf } from '../../../src/contract/index.js';

/** What is said below the table of what would leave. */
function told(about: Parameters<typeof tellLeaving>[0], given: object = {}): string[] {
  const notes: string[] = [];
  const typed = { operation: operationOf('infer'), fields: {}, options: {}, ...given };
  tellLeaving(about, typed, { note: (text: string) => notes.push(text) } as unknown as Reporter);
  return notes;
}

test('What is kept and removed is told by the number of files, and so is what was typed', () => {
  const kept = { Modality: 1, Rows: 3, Columns: 3 };
  const removed = { PatientName: 2, PatientID: 2, StudyDate: 1 };
  expect(
    told({ deidentify: 'full', kept, removed }, { fields: { tag: 'knees' }, options: { gpu: [0] } }),
  ).toEqual([
    'Kept in 3 files: Rows, Columns; in 1 file: Modality',
    'Removed in 2 files: PatientName, PatientID; in 1 file: StudyDate',
    'De-identified: only what is kept, and the voxels, would leave',
    'Sent as typed: --gpu, --tag',
  ]);
  expect(told({ deidentify: 'names', kept: {}, removed: {} })).toEqual([
    'Only the names are neutral: everything inside the files would leave as it is',
  ]);
  expect(told({ deidentify: null, kept: {}, removed: {} })).toEqual([
    'Files and their names would leave as they are, unless the server takes de-identified ones alone',
  ]);
  const typed = { operation: operationOf('infer'), fields: { tag: 'a' }, options: { gpu: [0] } };
  expect(typedOf(typed)).toEqual({ tag: 'a', gpu: [0] });
});
