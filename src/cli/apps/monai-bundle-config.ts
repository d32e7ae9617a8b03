import path from 'node:path';
import { z } from 'zod';
import { UsageError } from '../../client/errors.js';
import { excerpt, isObject, quotePath } from '../../contract/index.js';
import { namesIn } from '../../files/index.js';
import { readModelFile } from './model-file.js';

/** File names that bundles use for the inference configuration. */
const configNames = ['inference.json', 'inference.yaml', 'inference.yml'];

/** A part of a configuration that creates an object of the class named by `_target_`. */
export interface Component extends Readonly<Record<string, unknown>> {
  readonly _target_: string;
}

/** The name of a class without its modules. */
const classOf = ({ _target_ }: Component): string => _target_.split('.').at(-1) ?? '';

/** The inference configuration of a bundle. Only references and the simplest expressions are evaluated; all other code is not. */
export class BundleConfig {
  readonly file: string;
  readonly text: string;
  readonly content: Readonly<Record<string, unknown>>;

  /** @throws UsageError for a bundle without an inference configuration, and for one that cannot be read */
  constructor(readonly directory: string) {
    const names = namesIn(path.join(directory, 'configs'));
    const name = configNames.find((each) => names.includes(each));
    if (name === undefined) {
      const there = names.filter((each) => each !== 'metadata.json' && /\.(json|ya?ml)$/.test(each));
      throw new UsageError(
        `${quotePath(directory)} has no configuration of inference, configs/inference.json or configs/inference.yaml: ` +
          `configs has ${excerpt(there.join(', '), 500) || 'none'}`,
      );
    }
    this.file = `configs/${name}`;
    const { text, content } = readModelFile(
      path.join(directory, this.file),
      z.record(z.string(), z.unknown()),
      'MONAI',
    );
    this.text = text;
    this.content = { ...content, bundle_root: directory };
  }

  /** All parts that create an object of one of these classes; without names, of any class. */
  components(...names: readonly string[]): Component[] {
    const found: Component[] = [];
    for (const value of this.values())
      if (isObject(value) && typeof value._target_ === 'string') {
        const component = value as Component;
        if (names.length === 0 || names.includes(classOf(component))) found.push(component);
      }
    return found;
  }

  /** The names of the classes of a list of parts. */
  static classes(parts: unknown): string[] {
    return Array.isArray(parts)
      ? parts.map((each) =>
          isObject(each) && typeof each._target_ === 'string' ? classOf(each as Component) : '',
        )
      : [];
  }

  /** Every value, including nested ones. */
  *values(of: unknown = this.content): Generator<unknown> {
    yield of;
    if (typeof of === 'object' && of !== null) for (const each of Object.values(of)) yield* this.values(each);
  }

  /** Evaluates a value; undefined if that would need Python. */
  valueOf(value: unknown, depth = 0): unknown {
    if (depth > 20) return undefined;
    if (Array.isArray(value)) return value.map((each) => this.valueOf(each, depth + 1));
    if (typeof value !== 'string') return value;
    if (value.startsWith('@')) return this.#referred(value.slice(1), depth + 1);
    return value.startsWith('$') ? this.#expression(value.slice(1).trim(), depth + 1) : value;
  }

  #referred(id: string, depth: number): unknown {
    let value: unknown = this.content;
    for (const key of id.split(/::|#/)) {
      if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
      value = (value as Readonly<Record<string, unknown>>)[key];
    }
    return this.valueOf(value, depth);
  }

  /** Evaluates a quoted string, a reference, a sum or `os.path.join` of these, and a conditional on a reference. */
  #expression(code: string, depth: number): unknown {
    const choice = /^(.+?)\s+if\s+(@[\w:#]+)\s+else\s+(.+)$/.exec(code);
    if (choice) {
      const [, one = '', condition = '', other = ''] = choice;
      const isSo = this.valueOf(condition, depth);
      return typeof isSo === 'boolean' ? this.#expression(isSo ? one : other, depth + 1) : undefined;
    }
    if (/^@[\w:#]+$/.test(code)) return this.valueOf(code, depth);
    const key = /^(?:monai\.utils\.)?CommonKeys\.(\w+)$/.exec(code)?.[1];
    if (key !== undefined) return key.toLowerCase();
    const [, text] = /^(?:'([^'\\]*)'|"([^"\\]*)")$/.exec(code)?.filter((each) => each !== undefined) ?? [];
    if (text !== undefined) return text;
    const joined = /^os\.path\.join\((.*)\)$/.exec(code)?.[1];
    const parts = joined === undefined ? code.split('+') : joined.split(',');
    if (joined === undefined && parts.length === 1) return undefined;
    const values = parts.map((each) => this.#expression(each.trim(), depth + 1));
    if (!values.every((each): each is string => typeof each === 'string')) return undefined;
    return joined === undefined ? values.join('') : path.resolve(...values);
  }

  /** An error about this file. */
  fault(what: string): UsageError {
    return new UsageError(`${quotePath(path.join(this.directory, this.file))} ${what}`);
  }
}
