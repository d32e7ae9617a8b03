import type { IncomingMessage } from 'node:http';
import { mediaTypes, quoteName, ServiceError } from '../../contract/index.js';
import {
  FormParser,
  type PartReceiver,
  type PartSink,
  readBoundary,
  readPartHeaders,
} from '../../multipart/index.js';

/** Why a file that begins with these bytes may not leave, in words that follow its name; null if it may. */
export type StartFault = (start: Buffer) => string | null;

/** What to do about a refusal. */
const advice =
  "send it with 'remote-app infer', which removes what tells who somebody is, or run 'remote-app forward --no-deidentify' " +
  'if it may leave as it is';

const refusal = (what: string): ServiceError =>
  new ServiceError(
    'notDeidentified',
    `${what}, and your profile or REMOTE_APP_DEIDENTIFY asks for --deidentify, which this gateway cannot do: ${advice}`,
  );

/** Bytes of a part that decide whether it may leave. */
const startBytes = 16 << 10;

/** Looks at the beginning of each part of a form. */
class PartStarts implements PartReceiver {
  /** Whether the current part has not been decided yet. */
  isOpen = false;

  constructor(private readonly faultOf: StartFault) {}

  async begin(headers: Readonly<Record<string, string>>): Promise<PartSink> {
    const { field, file } = readPartHeaders(headers);
    let start = Buffer.alloc(0);
    this.isOpen = true;
    const decide = () => {
      this.isOpen = false;
      const fault = file === null ? null : this.faultOf(start);
      if (fault !== null) throw refusal(`File ${quoteName(file ?? '')} ${fault}`);
    };
    return {
      take: (piece) => {
        // Only a file has bytes that are not text.
        if (file === null && piece.includes(0)) throw refusal(`Field ${quoteName(field)} is not text`);
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
 * The body of a request. No byte of a part is passed on before the part's beginning shows that it may leave.
 * @throws ServiceError for a part that may not leave, for bytes behind the form, and for a body that is not a form
 */
export async function* guardedForm(
  { headers }: IncomingMessage,
  body: AsyncIterable<Buffer>,
  faultOf: StartFault,
): AsyncGenerator<Buffer> {
  const type = headers['content-type'] ?? '';
  if (!type.toLowerCase().startsWith(mediaTypes.form))
    throw refusal(`A body of the type ${quoteName(type)} is not looked into`);
  const boundary = readBoundary(type);
  const starts = new PartStarts(faultOf);
  const parser = new FormParser(boundary, starts);
  // An error is that of the write that caused it.
  parser.on('error', () => {});
  const close = Buffer.from(`--${boundary}--`, 'latin1');
  let isClosed = false;
  let tail: Buffer = Buffer.alloc(0);
  const held: Buffer[] = [];
  for await (const piece of body) {
    held.push(piece);
    await new Promise<void>((resolve, reject) => {
      parser.write(piece, (error) => (error ? reject(error) : resolve()));
    });
    tail = isClosed ? piece : Buffer.concat([tail.subarray(1 - close.length), piece]);
    const end = isClosed ? 0 : tail.indexOf(close) + close.length;
    isClosed ||= tail.includes(close);
    if (isClosed && tail.toString('latin1', end).trim() !== '')
      throw refusal('Bytes behind the form are not looked into');
    if (!starts.isOpen) yield* held.splice(0);
  }
  await new Promise<void>((resolve, reject) => {
    parser.once('error', reject).end(resolve);
  });
}
