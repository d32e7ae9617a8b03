import { createHash, randomBytes } from 'node:crypto';

/** Marks a token as one of ours, for programs that look for secrets in places where none may be. */
const mark = 'ra_';

/** A new token: 256 random bits, in characters that need no quotes in a shell or a header. */
export const newToken = (): string => `${mark}${randomBytes(32).toString('base64url')}`;

/**
 * What is kept of a token. A plain SHA-256 is enough: nobody can try all values of 256 random bits, so a hash that is slow
 * on purpose, as for passwords that people choose, would only make each request slower.
 */
export const hashOf = (token: string): string => `sha256:${createHash('sha256').update(token).digest('hex')}`;

/** What a hash looks like. */
export const hashPattern = /^sha256:[0-9a-f]{64}$/;
