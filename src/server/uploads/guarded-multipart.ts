import { type EventEmitter, once } from 'node:events';
import { multipart, type PluginFunction } from 'formidable';
import { ServiceError } from '../../contract/errors.js';
import { Base64Check } from './base64-check.js';
import { maxBoundary, maxPartHeaderBytes, maxPartHeaders } from './form-limits.js';
import { gatherPieces } from './gather-pieces.js';
import type { MultipartParser, ParserEvent } from './multipart-parser.js';
import type { RequestFlow } from './request-flow.js';
import { scanParts } from './scan-parts.js';

/** A part as formidable hands it over: it emits `data` and `end`. */
export interface FormPart extends EventEmitter {
  /** Names in lower case; values with one character a byte. */
  readonly headers: Readonly<Record<string, string>>;
  /** How formidable decodes it; in lower case. */
  readonly transferEncoding: string;
}

/** Receives the parts of a form. */
export interface PartReceiver {
  /** Called for each part. The form is read on when it resolves. */
  begin(part: FormPart): Promise<void>;
  /** Called for each piece of the request, with the bytes so far and the parts so far. */
  onProgress(received: number, parts: number): void;
  /** Called with any error, possibly more than once. */
  fail(cause: unknown): void;
}

/** The part of formidable's form that a plugin works with. */
interface Form extends EventEmitter {
  readonly headers: Readonly<Record<string, string>>;
  /** Null until a plugin has made one. */
  readonly _parser: MultipartParser | null;
  readonly error: unknown;
  onPart(part: FormPart): Promise<void>;
  _getFileName(header: string): string | null;
}

const badForm = (detail: string) =>
  new ServiceError('badRequest', `The body is not a multipart form: ${detail}`);

/** Limits the headers of each part while they arrive. formidable itself has no limit. */
class HeaderBounds {
  parts = 0;
  #bytes = 0;
  #headers = 0;

  /** @throws ServiceError 400 */
  check({ name, start = 0, end = 0 }: ParserEvent): void {
    if (name === 'partBegin') {
      this.parts += 1;
      this.#bytes = 0;
      this.#headers = 0;
    } else if (name === 'headerField' || name === 'headerValue') {
      this.#bytes += end - start;
      if (this.#bytes > maxPartHeaderBytes) {
        throw badForm(`the headers of a part are longer than ${maxPartHeaderBytes} bytes`);
      }
    } else if (name === 'headerEnd') {
      this.#headers += 1;
      if (this.#headers > maxPartHeaders) throw badForm(`a part has more than ${maxPartHeaders} headers`);
    }
  }
}

/** Refuses a part in base64 that has other bytes: the file would not be what was sent. */
class EncodedContents {
  /** Null for a part that is taken as it is. */
  #check: Base64Check | null = null;

  begin({ transferEncoding }: FormPart): void {
    this.#check = transferEncoding === 'base64' ? new Base64Check() : null;
  }

  /** @throws ServiceError 400 */
  check({ name, buffer, start, end }: ParserEvent): void {
    if (this.#check === null) return;
    let isBase64 = true;
    if (name === 'partData' && buffer) isBase64 = this.#check.take(buffer.subarray(start, end));
    else if (name === 'partEnd') isBase64 = this.#check.isWhole;
    if (!isBase64) throw badForm('a part in base64 has bytes that are not base64');
  }
}

function checkBoundary(contentType: string): void {
  const [, quoted, plain] = /boundary=(?:"([^"]+)"|([^;]+))/i.exec(contentType) ?? [];
  const boundary = quoted ?? plain ?? '';
  if (boundary === '') throw badForm('the Content-Type names no boundary');
  if (boundary.length > maxBoundary) {
    throw badForm(`its boundary is longer than ${maxBoundary} characters`);
  }
}

/** Whether an error is one of formidable's own. */
const isUnworded = (cause: unknown): boolean => Boolean(cause) && !(cause instanceof ServiceError);

/** Puts the faults of formidable's parser in words: its own name its states, and say of each that the form has ended. */
function wordFaults(parser: MultipartParser): void {
  const { _transform: parse, _flush: flush } = parser;
  parser._transform = (piece, encoding, done) =>
    parse.call(parser, piece, encoding, (cause) =>
      done(isUnworded(cause) ? badForm('a boundary, or a header of a part, is not well formed') : cause),
    );
  parser._flush = (done) =>
    flush.call(parser, (cause) =>
      done(cause && new ServiceError('badRequest', 'The body ended before the form was complete')),
    );
}

/**
 * formidable's plugin for multipart forms, with limits around it. Its parser's listener is asynchronous and formidable
 * ignores the promise: here a rejection ends the form instead of the process.
 */
export const guardedMultipart =
  (receiver: PartReceiver, flow: RequestFlow): PluginFunction =>
  (incoming, options) => {
    // The types leave out members that a plugin needs.
    const form = incoming as unknown as Form;
    try {
      checkBoundary(form.headers['content-type'] ?? '');
      multipart.call(incoming, incoming, options);
      if (form._parser) guard(form, form._parser, receiver, flow);
    } catch (cause) {
      receiver.fail(cause);
    }
  };

function guard(form: Form, parser: MultipartParser, receiver: PartReceiver, flow: RequestFlow): void {
  const bounds = new HeaderBounds();
  const contents = new EncodedContents();
  scanParts(parser);
  wordFaults(parser);
  gatherPieces(parser);
  form.onPart = (part) => {
    contents.begin(part);
    return receiver.begin(part);
  };
  // Names are read from the headers here: formidable's own reading takes time quadratic in the length of a name.
  form._getFileName = () => null;
  form.on('progress', (received: number) => {
    receiver.onProgress(received, bounds.parts);
    if (!parser.writableNeedDrain) return;
    // The parser waits for a part. formidable would go on writing to it, without a limit.
    flow.hold();
    once(parser, 'drain').then(
      () => flow.release(),
      () => {},
    );
  });
  // formidable listens only for the first error.
  parser.on('error', (cause) => receiver.fail(cause));

  const [listener] = parser.listeners('data') as ((event: ParserEvent) => Promise<void>)[];
  if (!listener) throw new Error("formidable's parser has no listener");
  parser.off('data', listener);
  parser.on('data', (event: ParserEvent) => {
    if (form.error) return;
    try {
      bounds.check(event);
      contents.check(event);
    } catch (cause) {
      receiver.fail(cause);
      // Stops it from processing what has arrived already.
      parser.destroy();
      return;
    }
    // The listener ignores contents; they are handled by another one, which it adds for each part.
    if (event.name !== 'partData') listener(event).catch((cause) => receiver.fail(cause));
  });
}
