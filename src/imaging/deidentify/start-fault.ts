import { isDicomStart, isGzip, unzippedStart } from '@remote-app/volumes/headers';
import { isVolumeContent } from '../inputs/index.js';

/**
 * Why a file that begins with these bytes may not leave where files have to be de-identified and nobody does it, in words
 * that follow its name; null for a volume that is not DICOM. An archive of any kind may hold DICOM.
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
