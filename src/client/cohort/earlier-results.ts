import { counted, quoteName } from '../../contract/index.js';
import type { CaseRecord } from '../case/index.js';
import { recordsIn } from './case-names.js';
import type { CohortDirectory } from './cohort-directory.js';
import type { CaseState } from './state.js';

/** What the table says of a result that is there. */
export async function stateOfResult(
  directory: CohortDirectory,
  name: string,
  record: CaseRecord,
): Promise<Omit<CaseState, 'name' | 'isNew'>> {
  const state = await directory.stateOfOutputs(name, record, 'read');
  const edited =
    state === 'edited' ? await directory.editedFiles(name, record) : directory.keptFiles(name, record);
  const [first, ...more] = edited;
  const others = more.length === 0 ? '' : ` and ${counted(more.length, 'other file')}`;
  const about = first === undefined ? [] : [`A person has changed ${quoteName(first)}${others}`];
  return {
    status: first === undefined ? 'done' : 'edited',
    reason: [...about, ...record.numbers_unread].join('; ') || null,
    seconds: record.seconds,
    jobId: record.job_id,
    numbers: record.numbers,
  };
}

/** The cases whose results are there, without those of these names: a command for some cases keeps the rows of the others. */
export async function otherResults(
  directory: CohortDirectory,
  names: ReadonlySet<string>,
): Promise<CaseState[]> {
  const states: CaseState[] = [];
  for (const [name, record] of recordsIn(directory.directory, names))
    states.push({ name, isNew: false, ...(await stateOfResult(directory, name, record)) });
  return states;
}
