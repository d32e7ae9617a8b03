import { firstBytes } from './first-bytes.js';

/** Bytes of a script that are read: more than Linux reads of its first line. */
const maxBytes = 4096;

/** How a script starts. */
export interface ScriptStart {
  /** The words of its first line: what runs it, and that program's arguments. Empty for what is no script. */
  readonly shebang: readonly string[];
  /** Its first bytes, the first line among them. */
  readonly text: string;
}

/** @returns the start of a script; of a file that is none, or cannot be read, one without words */
export function readScriptStart(file: string): ScriptStart {
  const text = firstBytes(file, maxBytes).toString('latin1');
  return { shebang: /^#!\s*([^\n]*)/.exec(text)?.[1]?.trim().split(/\s+/) ?? [], text };
}
