import type { Interfaces } from '@oclif/core';
import { isMap, isScalar, isSeq, LineCounter, type Node, type Pair, parseDocument } from 'yaml';
import { UsageError } from '../../client/errors.js';
import { nearest, quoteName } from '../../contract/index.js';
import { readNamedFile, sentenceOf } from '../command/index.js';

/**
 * Converts the flags of a configuration file to arguments, without those that were typed.
 * @param typed names of the flags that were typed
 * @param parse as the command parses its arguments
 * @throws UsageError that names the file and the line
 */
export async function configuredArguments(
  file: string,
  flags: Interfaces.FlagInput,
  typed: ReadonlySet<string>,
  parse: (argv: string[]) => Promise<unknown>,
): Promise<string[]> {
  const configured = readConfig(file, flags);
  // Parsed one by one, so that an error can name its line.
  for (const { argv, where } of configured) {
    await parse([...argv]).catch((cause: Error) => {
      throw new UsageError(`${where}: ${sentenceOf(cause, flags)}`, { cause });
    });
  }
  return configured.filter(({ name }) => !typed.has(name)).flatMap(({ argv }) => argv);
}

/** Flags that make sense only on the command line. */
const notInFiles = ['config', 'check', 'help'];

/** One flag of a configuration file. */
interface ConfiguredFlag {
  readonly name: string;
  /** As it would be typed. */
  readonly argv: readonly string[];
  /** File and line, for messages. */
  readonly where: string;
}

/** A value's text exactly as in the file: `0800` and `1e3` are not read as numbers. */
function textOf(node: unknown, where: string): string {
  if (!isScalar(node) || node.value === null) throw new UsageError(`${where} has no value`);
  return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value));
}

/** The arguments that would set a flag. @throws UsageError if the flag does not accept this kind of value */
function typed(name: string, flag: Interfaces.Flag<unknown>, node: unknown, where: string): string[] {
  if (flag.type === 'boolean') {
    const value = isScalar(node) ? node.value : undefined;
    if (value === true) return [`--${name}`];
    if (value === false) return [];
    throw new UsageError(`${where} takes true or false`);
  }
  if (!isSeq(node)) return [`--${name}=${textOf(node, where)}`];
  if (!flag.multiple) throw new UsageError(`${where} takes one value, not a list`);
  return node.items.map((item) => `--${name}=${textOf(item, where)}`);
}

/**
 * Reads a configuration file: YAML with flag names, without dashes, as keys.
 * @param flags of the command
 * @throws UsageError that names the file, the line and the key
 */
export function readConfig(file: string, flags: Interfaces.FlagInput): readonly ConfiguredFlag[] {
  const text = readNamedFile('The configuration', file);
  const oneALine = "it must have one flag a line, such as 'port: 8000'";
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter });
  const lineOf = (offset: number | undefined) => `${file}, line ${lineCounter.linePos(offset ?? 0).line}`;
  const [error] = document.errors;
  if (error) {
    throw new UsageError(
      `${lineOf(error.pos[0])}: it is not YAML: ${error.message.split(/ at line|\n/, 1)[0]}`,
    );
  }
  const { contents } = document;
  if (contents === null || (isScalar(contents) && contents.value === null)) return [];
  if (!isMap(contents)) throw new UsageError(`${file}: ${oneALine}`);
  const names = Object.keys(flags).filter((name) => !notInFiles.includes(name));
  return contents.items.map((pair) => {
    const { key, value } = pair as Pair<Node, Node | null>;
    const name = String(isScalar(key) ? key.value : key);
    const place = lineOf(key.range?.[0]);
    const flag = names.includes(name) ? flags[name] : undefined;
    if (!flag) throw new UsageError(unknownKey(place, name, names));
    const where = `${place}: ${quoteName(name)}`;
    return { name, argv: typed(name, flag, value, where), where: place };
  });
}

function unknownKey(place: string, name: string, names: readonly string[]): string {
  if (notInFiles.includes(name)) return `${place}: ${quoteName(name)} can only be given on the command line`;
  const near = nearest(name.replaceAll('_', '-').replace(/^-+/, ''), names);
  const end = near === null ? '; the keys are the flags that serve --help lists' : `; did you mean ${near}?`;
  return `${place}: there is no flag ${quoteName(name)}${end}`;
}
