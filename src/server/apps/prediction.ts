import path from 'node:path';
import { Lexer, Parser, parse } from 'yaml';
import { z } from 'zod';
import { readSmallFile } from '../../files/index.js';

/** Path of an app's prediction configuration for KonfAI. */
const predictionFile = (directory: string): string => path.join(directory, 'Prediction.yml');

/** Maximum nesting depth of a configuration: KonfAI's have about ten levels. */
const deepest = 64;

/**
 * Whether a text is nested more deeply than that. The package converts parsed text to values recursively, and Node exits if the
 * call stack overflows in a regular expression. Only its syntax parser, which is used here, has its own stack.
 */
function isDeep(text: string): boolean {
  const parser = new Parser();
  for (const token of new Lexer().lex(text)) {
    for (const _ of parser.next(token));
    if (parser.stack.length > deepest) return true;
  }
  return false;
}

/** The part of a prediction configuration that defines the patch size. */
const prediction = z.object({
  Predictor: z.object({
    Dataset: z.object({
      Patch: z.object({ patch_size: z.array(z.coerce.number().int().min(0)).min(1) }),
    }),
  }),
});

/** The model's block of a configuration, and the model's class. */
const model = z.object({ Predictor: z.object({ Model: z.record(z.string(), z.unknown()) }) });

const block = z.record(z.string(), z.unknown());

/** Keys of the model's block that define the model's structure and training and are not parameters. */
const structural = ['outputs_criterions', 'optimizer', 'schedulers', 'engine', 'parameter_maps', 'classpath'];

/** Maximum size of the values, in characters of JSON. */
const maxValuesLength = 64 * 1024;

/**
 * The parameters that `--set` can change, in KonfAI's form. The constraints are empty because KonfAI has them in its program,
 * which is not run here.
 */
interface ModelParameters {
  readonly values: Readonly<Record<string, unknown>>;
  readonly constraints: Readonly<Record<string, never>>;
  /** The position of the values in the configuration, because a nested value is set by its whole path. */
  readonly path: string;
}

function parametersOf(document: unknown): ModelParameters | null {
  const found = model.safeParse(document).data?.Predictor.Model ?? {};
  for (const [name, value] of Object.entries(found)) {
    const values = name === 'classpath' ? undefined : block.safeParse(value).data;
    if (!values) continue;
    const own = Object.entries(values).filter(([key]) => !structural.includes(key));
    if (own.length === 0) return null;
    // Throws for a value that contains itself, which YAML can express.
    const text = JSON.stringify(Object.fromEntries(own));
    // YAML stores repeated parts once, but JSON repeats them.
    if (text.length > maxValuesLength) return null;
    return { values: JSON.parse(text), constraints: {}, path: `Predictor.Model.${name}` };
  }
  return null;
}

/** Reads an app's `Prediction.yml` as far as possible. The result is only used as hints for people. */
export function readPrediction(directory: string) {
  const nothing = { patchSize: null, parameters: null };
  try {
    const text = readSmallFile(predictionFile(directory));
    if (isDeep(text)) return nothing;
    // KonfAI's own tags are ignored. Pretty errors and the check for repeated keys take quadratic time.
    const options = { logLevel: 'silent', prettyErrors: false, uniqueKeys: false } as const;
    const document: unknown = parse(text, options);
    const patch = prediction.safeParse(document).data;
    return {
      patchSize: patch?.Predictor.Dataset.Patch.patch_size ?? null,
      parameters: parametersOf(document),
    };
  } catch {
    return nothing;
  }
}
