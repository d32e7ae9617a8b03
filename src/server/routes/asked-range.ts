/**
 * The `If-Match` of a request for a file. `send` would accept a weak tag, which never matches here (RFC 9110, 13.1.1).
 * @returns undefined where there is none
 */
export const askedMatch = (ifMatch: string | undefined): string | undefined =>
  ifMatch
    ?.split(',')
    .map((tag) => tag.trim().replace(/^W\/.*/, '""'))
    .join(', ');

/**
 * The `Range` of a request for a file, for `send`, which differs from RFC 9110 in two places: it answers 416 to a suffix (`-N`, the
 * last N bytes) that is longer than the file, which means all of it (14.1.2), and takes a weak `If-Range` for the same file,
 * which never is (13.1.5).
 * @param size bytes of the file
 * @returns an empty text to send all of it
 */
export function askedRange(range: string, ifRange: string, size: number): string {
  if (ifRange.startsWith('W/')) return '';
  return range.replaceAll(/(?<=[=,]\s*-)\d+/g, (length) => String(Math.min(Number(length), size)));
}
