/**
 * A `Range` header whose suffix ranges (`-N`, the last N bytes) ask for no more than the whole file. `send` answers 416 to a
 * longer one, which means the whole file (RFC 9110, section 14.1.2).
 */
export const boundSuffixes = (range: string, size: number): string =>
  range.replaceAll(/(?<=[=,]\s*-)\d+/g, (length) => String(Math.min(Number(length), size)));
