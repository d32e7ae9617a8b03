import { mostListed } from './job.js';

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
} as const;

/** The header `Content-Type` of Prometheus' text format. */
export const metricsType = `${mediaTypes.metrics}; version=0.0.4; charset=utf-8`;

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
    help: `At most this many jobs, 1 to ${mostListed}, which is the default`,
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
