import { parse as parseYaml } from 'yaml';
import type { z } from 'zod';
import { UsageError } from '../../client/errors.js';
import { excerpt, quotePath } from '../../contract/index.js';
import { faultWithoutPath, readSmallFile } from '../../files/index.js';

/** Maximum size in bytes. Label tables of large networks take about 100 KB. */
const maxBytes = 16 * 1024 * 1024;

/**
 * Reads a JSON or YAML file that describes a trained network.
 * @param writer the program that writes such files
 * @throws UsageError
 */
export function readModelFile<T>(
  file: string,
  schema: z.ZodType<T>,
  writer: string,
): { readonly text: string; readonly content: T } {
  const isYaml = /\.ya?ml$/.test(file);
  let text: string;
  let json: unknown;
  try {
    text = readSmallFile(file, maxBytes);
    // Python reads YAML 1.1. Converting to JSON rules out circular references.
    json = JSON.parse(isYaml ? JSON.stringify(parseYaml(text, { version: '1.1' })) : text);
  } catch (cause) {
    const { name } = cause as Error;
    const why =
      name === 'TypeError'
        ? 'a part of it contains itself'
        : name === 'SyntaxError' || name === 'YAMLParseError'
          ? `it is not ${isYaml ? 'YAML' : 'JSON'}`
          : faultWithoutPath(cause);
    throw new UsageError(`${quotePath(file)} cannot be read: ${why}`, { cause });
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return { text, content: parsed.data };
  const [issue] = parsed.error.issues;
  const place = excerpt(issue?.path.map(String).join('.') || 'its content');
  const what = issue?.message.endsWith('received undefined') ? 'is missing' : `is not as ${writer} writes it`;
  throw new UsageError(`${quotePath(file)} is not of ${writer}: ${place} ${what}`);
}
