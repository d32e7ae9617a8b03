import { servicePrefix } from '../contract/log-stream.js';
import type { OutputLine } from './line-splitter.js';

/** What a reader does not see before a line's first character: colours and other control sequences, and marks without width. */
const unseen = /^(?:\p{Cc}\[[\d;:?]*[ -/]*[@-~]|[\p{Cc}\p{Cf}])*$/u;

/**
 * A line of the command's as the log has it. One that reads as the service's own gets a space in front, so that what
 * begins with the service's prefix was written by the service.
 */
export function asCommandLine(line: OutputLine): OutputLine {
  const at = line.text.indexOf(servicePrefix.trimEnd());
  return at >= 0 && unseen.test(line.text.slice(0, at)) ? { ...line, text: ` ${line.text}` } : line;
}
