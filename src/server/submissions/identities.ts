import { opendir } from 'node:fs/promises';
import path from 'node:path';
import { type Identity, identityIn } from '@remote-app/volumes/identity';
import { quoteName, ServiceError } from '../../contract/index.js';
import { TimeSlice } from '../../files/index.js';

/** Most attributes that a sentence names: private ones may be hundreds. */
const mostNamed = 10;

/** What somebody can do about a refusal, with our client and with another one. */
const advice =
  "send it with remote-app's --deidentify, or remove what tells who somebody is and send the field 'deidentified' before the files";

/** @throws ServiceError for a form that does not claim to be de-identified before its first file */
export function checkClaim(isClaimed: boolean): void {
  if (isClaimed) return;
  throw new ServiceError('notDeidentified', `This server takes de-identified scans alone: ${advice}`);
}

/** The attributes' names, in words. */
function listed(attributes: readonly string[]): string {
  const more = attributes.length - mostNamed;
  return attributes.slice(0, mostNamed).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

function checkIdentity(name: string, { attributes, isWhole }: Identity): void {
  if (attributes.length === 0 && isWhole) return;
  const problem =
    attributes.length > 0
      ? `tells who somebody is, in ${listed(attributes)}`
      : 'begins as DICOM and cannot be read to its end, so that nobody knows what it tells';
  throw new ServiceError(
    'notDeidentified',
    `File ${quoteName(name)} ${problem}; this server takes de-identified scans alone: ${advice}`,
  );
}

/**
 * Looks at each DICOM file of an upload, those of its archives included.
 * @param input the directory of the placed files
 * @throws ServiceError for the first file that tells who somebody is: with the names of its attributes, never their values
 */
export async function checkIdentities(input: string): Promise<void> {
  const slice = new TimeSlice();
  const pause = () => slice.pause();
  const directories = [input];
  for (let next = directories.pop(); next !== undefined; next = directories.pop()) {
    for await (const entry of await opendir(next, { bufferSize: 256 })) {
      const place = path.join(next, entry.name);
      if (entry.isDirectory()) directories.push(place);
      if (!entry.isFile()) continue;
      const identity = await identityIn(place, pause);
      if (identity) checkIdentity(nameOf(path.relative(input, place)), identity);
      await pause();
    }
  }
}

/** The name of a placed file as its sender knows it: without its field and group. */
const nameOf = (placed: string): string =>
  placed
    .split(path.sep)
    .slice(1)
    .filter((part, at) => at > 0 || !/^g\d+$/.test(part))
    .join('/');
