import { readlinkSync } from 'node:fs';
import path from 'node:path';

/** Links that are followed to one file, as many as Linux follows. */
const mostLinks = 40;

/** What a symbolic link says; undefined for what is none. */
export function linkText(file: string): string | undefined {
  try {
    return readlinkSync(file);
  } catch {
    return undefined;
  }
}

/**
 * The names that lead to a file: of each link that is followed on the way, and at last its own. Their directories have no links
 * in them. Whoever replaces what has one of these names replaces the file.
 * @param file absolute
 */
export function namesOf(file: string): string[] {
  const links: string[] = [];
  let reached = '/';
  const left = file.split(path.sep);
  for (let part = left.shift(); part !== undefined; part = left.shift()) {
    const name = path.join(reached, part);
    const target = links.length < mostLinks ? linkText(name) : undefined;
    if (target === undefined) reached = name;
    else {
      links.push(name);
      if (path.isAbsolute(target)) reached = '/';
      left.unshift(...target.split(path.sep));
    }
  }
  return [...links, reached];
}

/** The path without links, also of a file that is still to be made. */
export const resolved = (file: string): string => namesOf(file).at(-1) ?? file;

const withoutDots = (name: string): string => name.replace(/^[.#]+/, '');

/**
 * Whether a name is that of a secret file, or of what is left where such a file is edited, replaced or rotated:
 * `tokens.json.123.partial`, `.tokens.json.swp`, `audit.jsonl-20261123.gz`.
 */
export function isOfSecret(name: string, secret: string): boolean {
  const [own, other] = [withoutDots(secret), withoutDots(name)];
  return other === own || (other.startsWith(own) && /^\W/.test(other.slice(own.length)));
}
