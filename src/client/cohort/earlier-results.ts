import { counted, oneLine, quoteName } from '../../contract/index.js';
import {
  type CaseRecord,
  type Computation,
  digestOf,
  hashInputs,
  keyOf,
  stampIfThere,
} from '../case/index.js';
import { readCaseTable } from '../case-table.js';
import { type FoundCase, labelOf } from '../found-files.js';
import type { CohortDirectory } from './cohort-directory.js';
import type { CaseState } from './state.js';

/** What the table says of a result that is there. */
export async function stateOfResult(
  directory: CohortDirectory,
  name: string,
  record: CaseRecord,
): Promise<Omit<CaseState, 'name' | 'subject' | 'session' | 'isNew'>> {
  const state = await directory.stateOfOutputs(name, record, 'read');
  const edited =
    state === 'edited' ? await directory.editedFiles(name, record) : directory.keptFiles(name, record);
  const [first, ...more] = edited;
  const others = more.length === 0 ? '' : ` and ${counted(more.length, 'other file')}`;
  const about = first === undefined ? [] : [`A person has changed ${quoteName(first)}${others}`];
  return {
    status: first === undefined ? 'done' : 'edited',
    reason: [...about, ...record.numbers_unread, ...(record.conversion?.problems ?? [])].join('; ') || null,
    seconds: record.seconds,
    jobId: record.job_id,
    numbers: record.numbers,
  };
}

/**
 * The cases of earlier commands, without those of these names: a command for some cases keeps the rows of the others. A case without
 * a result keeps the row that says why.
 */
export async function otherCases(
  directory: CohortDirectory,
  names: ReadonlySet<string>,
): Promise<CaseState[]> {
  const rows = new Map(readCaseTable(directory.directory).map((row) => [row.name, row]));
  const entitiesOf = (name: string) => {
    const row = rows.get(oneLine(name));
    return {
      subject: row?.subject || labelOf(name, 'sub'),
      session: row?.session || labelOf(name, 'ses'),
    };
  };
  const states: CaseState[] = [];
  for (const [name, record] of directory.records(names))
    states.push({
      name,
      ...entitiesOf(name),
      isNew: false,
      ...(await stateOfResult(directory, name, record)),
    });
  const known = new Set([...names, ...states.map(({ name }) => name)].map((name) => oneLine(name)));
  for (const { name, status, reason, job } of rows.values()) {
    if (known.has(name) || !(status === 'failed' || status === 'waiting')) continue;
    const none = { seconds: null, isNew: false, numbers: {} };
    states.push({ name, ...entitiesOf(name), status, reason: reason || null, jobId: job || null, ...none });
  }
  return states;
}

/**
 * What a person should know of the result that a failed case has from an earlier command, as a sentence goes on. One of other
 * inputs is set aside: nobody should take it for that of this scan.
 * @throws the system's error
 */
export async function aboutEarlierResult(
  directory: CohortDirectory,
  found: FoundCase,
  computation: Computation,
  signal: AbortSignal | undefined,
): Promise<string> {
  const { name, files } = found;
  const record = directory.record(name);
  if (!record) return '';
  const stamp = stampIfThere(files);
  const seen = stamp && directory.seenDigest(name, stamp);
  // What is not there any more may be what it was.
  const isThere = stamp !== null && !found.isAway;
  const digest = isThere ? (seen ?? (await hashInputs(files, signal).then(digestOf, () => null))) : null;
  if (digest === null) return '; whether the result that is there belongs to it cannot be told';
  if (digest !== digestOf(record.inputs))
    return `; the result of its earlier input was moved to ${directory.setAside(name)}`;
  const isOther = record.key !== keyOf(computation, digest);
  return isOther ? '; the result that is there was made with other options or another version' : '';
}
