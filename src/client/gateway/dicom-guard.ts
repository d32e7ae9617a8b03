import type { IncomingMessage } from 'node:http';
import { isDicomStart, isGzip, unzippedStart } from '@remote-app/volumes/headers';
import { beginsAsZip, mediaTypes, quoteName, ServiceError } from '../../contract/index.js';
import {
  FormParser,
  type PartReceiver,
  type PartSink,
  readBoundary,
  readPartHeaders,
} from '../../multipart/index.js';

/** What to do about a refusal. */
const advice =
  "send it with 'remote-app infer', which removes what tells who somebody is, or run 'remote-app forward --no-deidentify' " +
  'if it may leave as it is';

const refusal = (what: string): ServiceError =>
  new ServiceError(
    'notDeidentified',
    `${what}, and your profile or REMOTE_APP_DEIDENTIFY asks for --deidentify, which this gateway cannot do: ${advice}`,
  );

/** Bytes of a file that decide what it is; packed ones are unpacked first. */
const startBytes = 16 << 10;

/** @throws ServiceError for DICOM, and for an archive, which may have it inside */
function checkStart(name: string, start: Buffer): void {
  const file = `File ${quoteName(name)}`;
  if (beginsAsZip(start.toString('latin1', 0, 4)))
    throw refusal(`${file} is an archive, in which DICOM may be`);
  let content = start;
  try {
    if (isGzip(start)) content = unzippedStart(start);
  } catch {
    throw refusal(`${file} cannot be unpacked, so that nobody knows whether it is DICOM`);
  }
  if (isDicomStart(content)) throw refusal(`${file} is DICOM`);
}

/** Looks at the beginning of each file of a form. */
class FileStarts implements PartReceiver {
  /** Whether the file that arrives is not known yet. */
  isOpen = false;

  async begin(headers: Readonly<Record<string, string>>): Promise<PartSink> {
    const { file } = readPartHeaders(headers);
    if (file === null) return { take: () => undefined, end: () => undefined };
    let start = Buffer.alloc(0);
    this.isOpen = true;
    const decide = () => {
      this.isOpen = false;
      checkStart(file, start);
    };
    return {
      take: (piece) => {
        if (!this.isOpen) return undefined;
        start = Buffer.concat([start, piece.subarray(0, startBytes - start.length)]);
        if (start.length === startBytes) decide();
        return undefined;
      },
      end: () => {
        if (this.isOpen) decide();
        return undefined;
      },
    };
  }

  onProgress(): void {}
}

/**
 * The body of a request, from which nothing is passed on of a file before its beginning shows that it is not DICOM.
 * @throws ServiceError for DICOM, for an archive, and for a body that cannot be looked into
 */
export async function* withoutDicom(
  { headers }: IncomingMessage,
  body: AsyncIterable<Buffer>,
): AsyncGenerator<Buffer> {
  const type = headers['content-type'] ?? '';
  if (!type.toLowerCase().startsWith(mediaTypes.form))
    throw refusal(`A body of the type ${quoteName(type)} is not looked into`);
  const starts = new FileStarts();
  const parser = new FormParser(readBoundary(type), starts);
  // An error is that of the write that caused it.
  parser.on('error', () => {});
  const held: Buffer[] = [];
  for await (const piece of body) {
    held.push(piece);
    await new Promise<void>((resolve, reject) => {
      parser.write(piece, (error) => (error ? reject(error) : resolve()));
    });
    if (!starts.isOpen) yield* held.splice(0);
  }
  await new Promise<void>((resolve, reject) => {
    parser.once('error', reject).end(resolve);
  });
}
