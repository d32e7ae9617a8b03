import { maxListed } from './job.js';

/** The host of a URL without the brackets around an IPv6 address. */
export const bareHost = (hostname: string): string => hostname.replace(/^\[|\]$/g, '');

/** `localhost` and the names below it, and loopback addresses, as a URL spells them. */
const loopback = /^((.+\.)?localhost\.?|127(\.\d+){3}|\[::1\]|\[::ffff:7f[\da-f]{2}:[\da-f]{1,4}\])$/;

/** Whether a host, as a name or as an address without brackets, is this machine itself. */
export function isLoopback(host: string): boolean {
  try {
    // URLs have a canonical spelling for each address.
    return loopback.test(new URL(`http://${host.includes(':') ? `[${host}]` : host}`).hostname);
  } catch {
    return false;
  }
}

/** Names and values of HTTP that both sides use. */

/** The scheme of the token in the header `Authorization`. */
export const authScheme = 'Bearer';

/** Media types of the bodies of requests and answers. */
export const mediaTypes = {
  json: 'application/json',
  form: 'multipart/form-data',
  events: 'text/event-stream',
  zip: 'application/zip',
  text: 'text/plain',
  /** Prometheus' text format. */
  metrics: 'text/plain',
  /** Bytes of an upload, in tus. */
  offsetStream: 'application/offset+octet-stream',
} as const;

/** The header `Content-Type` of Prometheus' text format. */
export const metricsType = `${mediaTypes.metrics}; version=0.0.4; charset=utf-8`;

/** What tus calls its version, what the server can do of it, and its headers (docs/http.md, Uploads). */
export const tus = {
  version: '1.0.0',
  extensions: ['creation', 'creation-with-upload', 'expiration', 'termination', 'checksum'],
  checksums: ['sha1', 'sha256'],
  headers: {
    resumable: 'Tus-Resumable',
    version: 'Tus-Version',
    extension: 'Tus-Extension',
    maxSize: 'Tus-Max-Size',
    checksumAlgorithm: 'Tus-Checksum-Algorithm',
    length: 'Upload-Length',
    offset: 'Upload-Offset',
    metadata: 'Upload-Metadata',
    checksum: 'Upload-Checksum',
    expires: 'Upload-Expires',
  },
  /** The key of the metadata that has the name of the upload: the SHA-256 of its content. */
  nameKey: 'sha256',
} as const;

/** The name of an upload: the SHA-256 of its content, in lower-case hexadecimal digits. */
export const uploadNamePattern = /^[0-9a-f]{64}$/;

/** Most bytes of a submission as JSON. */
export const maxJsonBytes = 4 << 20;

/** Parameters that a request may have in its query or its headers. */
export const parameters = {
  since: { name: 'since', in: 'query', kind: 'integer', help: 'Lines to skip; adds ids to the events' },
  tail: {
    name: 'tail',
    in: 'query',
    kind: 'integer',
    help: "That many last lines, then what comes; adds ids to the events. 'since' wins over it",
  },
  redraws: {
    name: 'redraws',
    in: 'query',
    kind: 'boolean',
    help: "Adds 'event: redraw' to lines that a carriage return ended, as progress bars print them",
  },
  partial: {
    name: 'partial',
    in: 'query',
    kind: 'boolean',
    help: 'Of a job that failed or was killed: what it left in its output',
  },
  lastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    kind: 'integer',
    help: "The same as 'since', as browsers send it",
  },
  usedSince: {
    name: 'since',
    in: 'query',
    kind: 'text',
    help: 'Jobs that ended since then: a time with its zone, as 2026-11-01T00:00:00Z, or a date, in UTC; without it all',
  },
  all: {
    name: 'all',
    in: 'query',
    kind: 'boolean',
    help: "The jobs of all owners, and not one's own alone; refused to whoever is no admin",
  },
  tag: {
    name: 'tag',
    in: 'query',
    kind: 'text',
    help: 'Jobs of this tag alone',
  },
  limit: {
    name: 'limit',
    in: 'query',
    kind: 'integer',
    help: `At most this many jobs, 1 to ${maxListed}, which is the default`,
  },
  before: {
    name: 'before',
    in: 'query',
    kind: 'text',
    help: 'The id of a job: only those that come after it in the list, which are older',
  },
  devices: {
    name: 'devices',
    in: 'query',
    kind: 'integers',
    required: true,
    help: 'GPU ids: the parameter repeated, or separated by commas',
  },
  app: { name: 'app', in: 'query', kind: 'text', help: 'The app of a submission that is to come' },
  operation: { name: 'operation', in: 'query', kind: 'text', help: 'Its operation, such as infer' },
  gpu: { name: 'gpu', in: 'query', kind: 'integers', help: 'Its GPUs' },
  cpu: { name: 'cpu', in: 'query', kind: 'integer', help: 'Its CPU workers, for a submission without GPUs' },
  drainedGpus: {
    name: 'gpu',
    in: 'query',
    kind: 'integers',
    help: 'Only these GPUs, by id: the parameter repeated, or separated by commas; without it the whole server',
  },
  tusResumable: {
    name: tus.headers.resumable,
    in: 'header',
    kind: 'text',
    required: true,
    help: `The version of tus: ${tus.version}`,
  },
  uploadLength: {
    name: tus.headers.length,
    in: 'header',
    kind: 'integer',
    required: true,
    help: 'Bytes of the whole upload',
  },
  uploadMetadata: {
    name: tus.headers.metadata,
    in: 'header',
    kind: 'text',
    required: true,
    help: `'${tus.nameKey} ' and the SHA-256 of the content, as 64 lower-case hexadecimal digits in base64; other keys are ignored`,
  },
  uploadOffset: {
    name: tus.headers.offset,
    in: 'header',
    kind: 'integer',
    required: true,
    help: 'Where the bytes belong: what is there already',
  },
  uploadChecksum: {
    name: tus.headers.checksum,
    in: 'header',
    kind: 'text',
    help: "'sha1 ' or 'sha256 ' and the checksum of the body in base64",
  },
  idempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    kind: 'text',
    help: "A repeat with the same key answers with the first one's job for as long as the server keeps that job",
  },
} as const;
export type Parameter = (typeof parameters)[keyof typeof parameters];

/**
 * Header of a form part: the size of its content in bytes, as sent. It saves the server from searching the content for
 * its end, and lets it refuse a file that is too large before the first byte. Other servers ignore it, like any unknown
 * header (RFC 7578, 4.8).
 */
export const partSizeHeader = 'remote-app-size';
