import { isDicomStart, isGzip, unzippedStart } from '@remote-app/volumes/headers';
import { isVolumeContent } from '../inputs/index.js';

/**
 * Why a file that begins with these bytes may not be sent by a program that has to de-identify files but cannot. The words
 * follow the file's name. Null for a volume that is not DICOM; an archive of any kind may hold DICOM.
 */
export function startFault(start: Buffer): string | null {
  let content = start;
  try {
    if (isGzip(start)) content = unzippedStart(start);
  } catch {
    return 'cannot be unpacked, so that nobody knows whether it is DICOM';
  }
  if (isDicomStart(content)) return 'is DICOM';
  return isVolumeContent(content) ? null : 'does not begin like a known volume, and may have DICOM inside';
}
