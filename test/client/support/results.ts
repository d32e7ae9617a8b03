import path from 'node:path';
import { hashOutputs, writeRecord } from '../../../src/client/case/record.js';
import type { FoundCase } from '../../../src/client/found-files.js';
import { filesBelow } from '../../../src/files/index.js';
import { silentRecord } from '../../support/record-facts.js';
import { plant } from '../../support/temporary.js';

/** A case of a scan. */
export const caseOf = (
  file: string,
  subject: string | null = '01',
  session: string | null = null,
  name = file,
) =>
  ({
    ...{ name, subject, session, fault: null },
    files: { volumes: [{ groups: [[{ path: file }]] }] },
  }) as unknown as FoundCase;

/** A complete result of these files, whose app got these inputs. */
export async function complete(
  directory: string,
  files: Readonly<Record<string, string>>,
  { inputs = ['T1w.nii'], log = null }: { inputs?: readonly string[]; log?: string | null } = {},
): Promise<void> {
  await plant(directory, { './': '', ...files });
  const recorded = inputs.map((name) => ({
    name,
    size: 1,
    sha256: 'a'.repeat(64),
    field: 'inputs',
    group: 0,
  }));
  const outputs = await hashOutputs(directory, undefined, log);
  writeRecord(directory, silentRecord({ inputs: recorded, outputs, log }));
}

/** The files below a directory, as paths in it, sorted. */
export const namesBelow = (root: string): string[] =>
  filesBelow(root)
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .sort();
