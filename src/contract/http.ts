import type { FieldKind } from './fields.js';
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

/** HTTP names and values that both sides use. */

/** The scheme of the token in the `Authorization` header. */
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
  /** Bytes of a tus upload. */
  offsetStream: 'application/offset+octet-stream',
} as const;

/** The `Content-Type` header for the Prometheus text format. */
export const metricsType = `${mediaTypes.metrics}; version=0.0.4; charset=utf-8`;

/** The tus version, the extensions and checksums that the server supports, and the tus headers (docs/http.md, Uploads). */
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
  /** The metadata key for the name of the upload: the SHA-256 of its content. */
  nameKey: 'sha256',
} as const;

/** The name of an upload: the SHA-256 of its content, in lower-case hexadecimal digits. */
export const uploadNamePattern = /^[0-9a-f]{64}$/;

/** Maximum size of a JSON submission, in bytes. */
export const maxJsonBytes = 4 << 20;

/** Declares a parameter in the query or the headers of a request. */
const placed =
  <Place extends 'query' | 'header'>(place: Place) =>
  <Kind extends FieldKind>(name: string, kind: Kind, help: string) => ({ name, in: place, kind, help });
const query = placed('query');
const header = placed('header');
const required = <Optional>(parameter: Optional) => ({ ...parameter, required: true });

/** Parameters that a request may have in its query or its headers. */
export const parameters = {
  since: query('since', 'integer', 'Number of lines to skip; adds ids to the events'),
  tail: query(
    'tail',
    'integer',
    "Start with this many last lines; adds ids to the events. Ignored if 'since' is given",
  ),
  redraws: query(
    'redraws',
    'boolean',
    "Adds 'event: redraw' to lines that end in a carriage return, as progress bars print them",
  ),
  partial: query('partial', 'boolean', 'For a job that failed or was killed: the output it left behind'),
  lastEventId: header('Last-Event-ID', 'integer', "The same as 'since', as browsers send it"),
  usedSince: query(
    'since',
    'text',
    'Only jobs that ended since then: a time with its zone, such as 2026-11-01T00:00:00Z, or a date in UTC',
  ),
  all: query('all', 'boolean', "The jobs of all owners instead of one's own; admins only"),
  tag: query('tag', 'text', 'Only jobs with this tag'),
  limit: query('limit', 'integer', `At most this many jobs, 1 to ${maxListed}, which is the default`),
  before: query('before', 'text', 'Id of a job: only jobs that follow it in the list, which are older'),
  devices: required(query('devices', 'integers', 'GPU ids: the parameter repeated, or separated by commas')),
  app: query('app', 'text', 'App of the planned submission'),
  operation: query('operation', 'text', 'Its operation, such as infer'),
  gpu: query('gpu', 'integers', 'Its GPUs'),
  cpu: query('cpu', 'integer', 'Its number of CPU workers, for a submission without GPUs'),
  drainedGpus: query(
    'gpu',
    'integers',
    'Only these GPUs, by id: the parameter repeated, or separated by commas; by default the whole server',
  ),
  tusResumable: required(header(tus.headers.resumable, 'text', `The version of tus: ${tus.version}`)),
  uploadLength: required(header(tus.headers.length, 'integer', 'Size of the whole upload in bytes')),
  uploadMetadata: required(
    header(
      tus.headers.metadata,
      'text',
      `'${tus.nameKey} ' and the SHA-256 of the content, as 64 lower-case hexadecimal digits in base64; other keys are ignored`,
    ),
  ),
  uploadOffset: required(
    header(tus.headers.offset, 'integer', 'Position of the bytes: how much of the upload exists already'),
  ),
  uploadChecksum: header(
    tus.headers.checksum,
    'text',
    "'sha1 ' or 'sha256 ' and the checksum of the body in base64",
  ),
  idempotencyKey: header(
    'Idempotency-Key',
    'text',
    'A repeated request with the same key is answered with the job of the first, for as long as the server keeps that job',
  ),
} as const;
export type RequestParameter = (typeof parameters)[keyof typeof parameters];

/**
 * Header of a form part: the size of its content in bytes, as sent. It saves the server from searching the content for
 * its end, and lets it refuse a file that is too large before the first byte. Other servers ignore it, like any unknown
 * header (RFC 7578, 4.8).
 */
export const partSizeHeader = 'remote-app-size';
