import { errorKinds, mediaTypes, parameters, routes, tus, uploadPath } from '../../contract/index.js';
import { HttpError } from '../errors.js';
import { AnswerError } from './answers.js';
import type { Call, Connection } from './connection.js';
import { header, type Reply } from './reply.js';

/** How much of an upload the server has (docs/http.md, Uploads). Both are in bytes. */
export interface UploadState {
  readonly offset: number;
  readonly length: number;
}

const resumable = { [parameters.tusResumable.name]: tus.version };

/** Reads a whole number from a header of an answer. @throws AnswerError */
function numberIn(reply: Reply, name: string, { server }: Connection, path: string): number {
  const text = header(reply, name.toLowerCase()) ?? '';
  if (/^\d{1,15}$/.test(text)) return Number(text);
  throw new AnswerError(server, `answered ${path} without the header ${name}`);
}

/** Sends a tus request. @throws HttpError for every status but 2xx */
async function ask(connection: Connection, path: string, call: Call): Promise<Reply> {
  const reply = await connection.send(path, { ...call, headers: { ...resumable, ...call.headers } });
  if (reply.statusCode >= 300) throw await connection.refused(reply, path, call.signal);
  // The body must be read before the connection can be reused.
  await connection.words(reply, call.signal);
  return reply;
}

/** How much of an upload the server has; null if this token's owner has not begun the upload. */
export async function uploadState(
  connection: Connection,
  sha256: string,
  signal: AbortSignal,
): Promise<UploadState | null> {
  const path = uploadPath(sha256);
  try {
    const reply = await ask(connection, path, { method: routes.upload.method, signal });
    const number = (name: string) => numberIn(reply, name, connection, path);
    return { offset: number(tus.headers.offset), length: number(tus.headers.length) };
  } catch (error) {
    const isUnknown = error instanceof HttpError && error.status === errorKinds.unknownUpload.status;
    if (isUnknown) return null;
    throw error;
  }
}

/** The bytes of an upload that one request sends. */
export interface UploadBytes {
  readonly length: number;
  readonly stream: AsyncIterable<Buffer>;
}

const bodyOf = (bytes: UploadBytes) => ({
  headers: { 'content-type': mediaTypes.offsetStream, 'content-length': String(bytes.length) },
  body: bytes.stream,
  headTimeout: 0,
});

/**
 * Begins an upload, or finds out how much the server has of an upload that was begun before.
 * @param first all bytes of the upload; the server ignores them if it already has some
 * @returns the offset
 */
export async function beginUpload(
  connection: Connection,
  { sha256, size }: { readonly sha256: string; readonly size: number },
  signal: AbortSignal,
  first?: UploadBytes,
): Promise<number> {
  const { method, path } = routes.beginUpload;
  const body = first ? bodyOf(first) : { headers: { 'content-length': '0' } };
  const reply = await ask(connection, path, {
    ...body,
    method,
    signal,
    headers: {
      ...body.headers,
      [parameters.uploadLength.name]: String(size),
      [parameters.uploadMetadata.name]: `${tus.nameKey} ${Buffer.from(sha256).toString('base64')}`,
    },
  });
  return numberIn(reply, tus.headers.offset, connection, path);
}

/** Continues an upload. @throws AnswerError unless the server confirms that it then has all of it */
export async function appendUpload(
  connection: Connection,
  sha256: string,
  offset: number,
  bytes: UploadBytes,
  signal: AbortSignal,
): Promise<void> {
  const path = uploadPath(sha256);
  const body = bodyOf(bytes);
  const headers = { ...body.headers, [parameters.uploadOffset.name]: String(offset) };
  const reply = await ask(connection, path, { ...body, method: routes.appendUpload.method, signal, headers });
  const after = numberIn(reply, tus.headers.offset, connection, path);
  if (after !== offset + bytes.length)
    throw new AnswerError(
      connection.server,
      `was sent an upload up to byte ${offset + bytes.length}, but reports ${after}`,
    );
}
