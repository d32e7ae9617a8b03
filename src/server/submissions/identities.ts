import { opendir } from 'node:fs/promises';
import path from 'node:path';
import { identityIn } from '@remote-app/volumes/identity';
import { quoteName, ServiceError } from '../../contract/index.js';
import { TimeSlice } from '../../files/index.js';

/** Maximum number of attributes that a sentence names: there may be hundreds of private ones. */
const maxNamed = 10;

/** What a person can do about a refusal, with our client or with another one. */
const advice =
  "send it with remote-app's --deidentify, or remove what identifies a person and send the field 'deidentified' before the files";

/** Checks that a form claims to be de-identified before its first file. @throws ServiceError if it does not */
export function checkClaim(isClaimed: boolean): void {
  if (isClaimed) return;
  throw new ServiceError('notDeidentified', `This server accepts only de-identified scans: ${advice}`);
}

/** The names of attributes, as listed in a sentence. */
function listed(attributes: readonly string[]): string {
  const more = attributes.length - maxNamed;
  return attributes.slice(0, maxNamed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/**
 * Checks one file. Files that are not DICOM pass.
 * @param what the subject of a sentence about the file
 * @throws ServiceError if the file identifies a person; names the attributes, never their values
 */
export async function checkIdentity(file: string, what: string, slice = new TimeSlice()): Promise<void> {
  const identity = await identityIn(file, () => slice.pause());
  if (!identity || (identity.attributes.length === 0 && identity.isWhole)) return;
  const problem =
    identity.attributes.length > 0
      ? `identifies a person, in ${listed(identity.attributes)}`
      : 'begins like DICOM but cannot be read to its end, so it may identify a person';
  const detail = `${what} ${problem}; this server only takes de-identified scans: ${advice}`;
  throw new ServiceError('notDeidentified', detail);
}

/**
 * Checks all DICOM files of a submission, including those from its archives.
 * @param input the directory of the placed files
 * @throws ServiceError for the first file that identifies a person
 */
export async function checkIdentities(input: string): Promise<void> {
  const slice = new TimeSlice();
  const directories = [input];
  for (let next = directories.pop(); next !== undefined; next = directories.pop()) {
    for await (const entry of await opendir(next, { bufferSize: 256 })) {
      const place = path.join(next, entry.name);
      if (entry.isDirectory()) directories.push(place);
      if (!entry.isFile()) continue;
      await checkIdentity(place, `File ${quoteName(nameOf(path.relative(input, place)))}`, slice);
      await slice.pause();
    }
  }
}

/** The name of a placed file as its sender knows it: without the directories of its field and group. */
const nameOf = (placed: string): string =>
  placed
    .split(path.sep)
    .slice(1)
    .filter((part, at) => at > 0 || !/^g\d+$/.test(part))
    .join('/');
