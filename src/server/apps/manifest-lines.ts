import { isNode, LineCounter, parseDocument } from 'yaml';
import { readSmallFile } from '../../files/small-file.js';
import { isDeepYaml } from '../../files/yaml-depth.js';
import { longestManifest, type ManifestFault } from './manifest.js';

/** A fault, and the line of the file that it is on; null if it is on none. */
export interface FaultOnLine extends ManifestFault {
  readonly line: number | null;
}

/** Whether a text is not JSON, whatever may follow it: its end is not what is wrong. */
function isWrongAlready(text: string): boolean {
  try {
    JSON.parse(text);
    return false;
  } catch (cause) {
    const [, position] = /at position (\d+)/.exec(String(cause)) ?? [];
    return position === undefined ? !/end of JSON/.test(String(cause)) : Number(position) < text.length;
  }
}

/** Where a text stops being JSON, in characters: Node's parser does not always say it. */
function syntaxOffset(text: string): number {
  let [right, wrong] = [0, text.length];
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2);
    if (isWrongAlready(text.slice(0, middle))) wrong = middle;
    else right = middle;
  }
  return Math.min(right, text.trimEnd().length);
}

/** The text of a file; null for one that cannot be read. */
function textOf(file: string): string | null {
  try {
    return readSmallFile(file, longestManifest);
  } catch {
    return null;
  }
}

/**
 * Finds the lines of faults in an `app.json`. YAML's parser reads JSON as well, and says where each value is; of a key that
 * is missing, the line is that of the object that it is missing in. A file with very many levels has no lines here.
 */
export async function onLines(file: string, faults: readonly ManifestFault[]): Promise<FaultOnLine[]> {
  const text = textOf(file);
  if (text === null || isDeepYaml(text)) return faults.map((fault) => ({ ...fault, line: null }));
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter });
  const lineAt = (offset: number) => lineCounter.linePos(offset).line;
  const lineOf = (path: readonly PropertyKey[]): number => {
    for (let length = path.length; length > 0; length -= 1) {
      const node = document.getIn(path.slice(0, length), true);
      if (isNode(node) && node.range) return lineAt(node.range[0]);
    }
    return lineAt(document.contents?.range?.[0] ?? 0);
  };
  return faults.map((fault) => ({
    ...fault,
    line: fault.isSyntax ? lineAt(syntaxOffset(text)) : lineOf(fault.path),
  }));
}
