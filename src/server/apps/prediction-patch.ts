import path from 'node:path';
import { Lexer, Parser, parse } from 'yaml';
import { z } from 'zod';
import { readSmallFile } from '../../files/small-file.js';

/** The part of a prediction configuration that says how large its patches are. */
const prediction = z.object({
  Predictor: z.object({
    Dataset: z.object({
      Patch: z.object({ patch_size: z.array(z.coerce.number().int().min(0)).min(1) }),
    }),
  }),
});

/** Most levels of a configuration. Those of KonfAI have about ten. */
const deepest = 64;

/**
 * Whether a text has more levels than that. `parse` goes through them recursively, and where the call stack ends in one of
 * its regular expressions, Node ends the whole process. The parser of the syntax alone has a stack of its own.
 */
function isTooDeep(text: string): boolean {
  const parser = new Parser();
  for (const token of new Lexer().lex(text)) {
    for (const _ of parser.next(token));
    if (parser.stack.length > deepest) return true;
  }
  return false;
}

/**
 * Reads the patch size of an app from its `Prediction.yml`, which is where KonfAI's apps have it.
 * @returns voxels along each axis; null if it does not say, or cannot be read: it is a hint for a person
 */
export function readPatchSize(directory: string): number[] | null {
  try {
    const text = readSmallFile(path.join(directory, 'Prediction.yml'));
    if (isTooDeep(text)) return null;
    // KonfAI's files have tags of its own. They mean nothing here. Errors are not shown, and repeated keys are not looked
    // for: both take a time that grows with the square of the length.
    const options = { logLevel: 'silent', prettyErrors: false, uniqueKeys: false } as const;
    return prediction.parse(parse(text, options)).Predictor.Dataset.Patch.patch_size;
  } catch {
    return null;
  }
}
