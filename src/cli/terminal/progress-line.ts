import { stripVTControlCharacters } from 'node:util';

/** What an app says of its progress in one line. */
export interface Progress {
  /** What is done, in the app's words; empty where it does not say. */
  readonly what: string;
  readonly percent: number;
  /** As the app writes them: `45`, `1.2k`; null where it does not say. */
  readonly done: string | null;
  readonly total: string | null;
  /** The time that is left, as the app writes it; null where it does not say. */
  readonly left: string | null;
}

/** Longest line that is looked at, in characters. */
const maxLength = 1000;

/** What stands in front of the percents: words, and perhaps a colon. */
const words = String.raw`(?:(?<what>\S.{0,599}?)\s*:?\s+|(?<close>\S.{0,599}?):)?`;
const percents = String.raw`(?<percent>\d{1,3})(?:\.\d+)?\s?%`;
/** The drawing of tqdm, in its own characters or in ASCII. */
const strip = String.raw`\|[ \d#=>.\-\u2580-\u259f]*`;
const drawing = String.raw`${strip}\|\s*`;
const counts = String.raw`(?<done>\d[\d.]*[kMGTP]?)\s?\/\s?(?<total>\d[\d.]*[kMGTP]?)`;
/** Elapsed and remaining time, then a rate and more. */
const times = String.raw`(?:\s*\[[^\]<]{0,40}<\s*(?<left>[\d:?. a-z]{1,20}?)\s*(?:,[^\]]*)?\].{0,100})?`;

/** What may change from one state of a bar to the next: KonfAI says there how much memory is used. */
const detail = /\s*[:(].*$/su;

const shape = new RegExp(String.raw`^\s*${words}${percents}(?:${drawing}|\s+)${counts}${times}\s*$`, 'u');
/** A drawing without counts, which may be cut. */
const bare = new RegExp(String.raw`^\s*${words}${percents}${strip}\|?\s*$`, 'u');

/**
 * Reads the progress that a line tells of, as KonfAI's and other tqdm programs write it: `45%|###   | 45/100 [00:10<00:12]`,
 * `Prediction : 45% 3/25`.
 * @returns null for any other line
 */
export function readProgress(line: string): Progress | null {
  if (line.length > maxLength || !line.includes('%')) return null;
  const text = stripVTControlCharacters(line);
  const found = (shape.exec(text) ?? bare.exec(text))?.groups;
  if (!found) return null;
  const { what = found.close ?? '', percent = '', done = null, total = null, left } = found;
  const known = left === undefined || left.includes('?') ? null : left;
  return {
    what: what.replace(detail, ''),
    percent: Math.min(Number(percent), 100),
    done,
    total,
    left: known,
  };
}
