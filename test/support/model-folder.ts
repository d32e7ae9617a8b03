import path from 'node:path';
import { onTestFinished } from 'vitest';
import { plant, temporary } from './temporary.js';

/** Files of a folder by name; null means that the file is missing. */
export type Changes = Readonly<Record<string, string | Buffer | object | null>>;

/**
 * Creates the folder of a network until the end of the test, with the given differences.
 * @param usual its files, by their names with that of the folder
 */
export async function plantedFolder(
  name: string,
  usual: Readonly<Record<string, string | Buffer>>,
  changes: Changes,
): Promise<string> {
  const root = await temporary();
  onTestFinished(() => root[Symbol.asyncDispose]());
  const changed = Object.entries(changes).map(([file, content]) => [`${name}/${file}`, content] as const);
  const files = Object.entries({ ...usual, ...Object.fromEntries(changed) });
  const asText = (content: string | Buffer | object) =>
    typeof content === 'string' || Buffer.isBuffer(content) ? content : JSON.stringify(content);
  await plant(
    root.path,
    Object.fromEntries(files.flatMap(([file, text]) => (text === null ? [] : [[file, asText(text)]]))),
  );
  return path.join(root.path, name);
}

/** Why no app can be made from a folder, which the message calls `.`; empty if it can. */
export function refusalOf(make: (directory: string) => unknown, directory: string): string {
  try {
    make(directory);
  } catch (cause) {
    return (cause as Error).message.replaceAll(directory, '.').replaceAll(path.dirname(directory), '..');
  }
  return '';
}
