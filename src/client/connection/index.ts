import type { Connection, ConnectionOptions } from './connection.js';
import type { Transport, Trust } from './transport.js';

// The code that makes requests is imported lazily, because most of it is undici.

/** Opens a connection to a server, without making a request. @throws UsageError for an invalid address */
export const openConnection = async (options: ConnectionOptions): Promise<Connection> =>
  new (await import('./connection.js')).Connection(options);

/** Reads the certificates of a PEM file. @throws UsageError */
export const trustFile = async (file: string): Promise<Trust> => (await import('./tls.js')).trustFile(file);

/** The proxy that the environment names for a server, if any. @throws UsageError for a variable that does not name a proxy */
export const proxyTo = async (
  server: URL,
  timeout: number,
  trust: Trust | undefined,
): Promise<Transport | undefined> => (await import('./proxy.js')).proxyTo(server, timeout, trust);

export { readServerUrl, readSshAddress, type SshAddress, showServerUrl, sshCommand } from './address.js';
export type {
  AppAnswer,
  AvailableAppAnswer,
  JobAnswer,
  LimitsAnswer,
  RefreshAnswer,
} from './answer-schemas.js';
export { AnswerError } from './answers.js';
export * from './api.js';
export { checkAppId, checkJobId } from './identifiers.js';
export { fetchLeft, leftText, progressOf } from './job-words.js';
export { backoff, type Patience, pause, untilAnswered, type Watcher } from './patience.js';
export { defaultProfile, listProfiles, type Profile, readProfile, writeProfile } from './profiles.js';
export { bodyOf, header, type Reply, retryAfter } from './reply.js';
export { type Transport, wasClosed } from './transport.js';
export { appendUpload, beginUpload, type UploadBytes, uploadState } from './tus.js';
export type { Connection, ConnectionOptions };
