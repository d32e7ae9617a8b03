import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';
import { readSmallFile } from '../../files/small-file.js';
import { isDeepYaml } from '../../files/yaml-depth.js';

/** The part of a prediction configuration that says how large its patches are. */
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

/** What stands in the model's block and is no value of the model: how it is built and trained. */
const structural = ['outputs_criterions', 'optimizer', 'schedulers', 'engine', 'parameter_maps', 'classpath'];

/** Characters that the values may have, as JSON. */
const longestValues = 64 * 1024;

/** What `--set` changes of an app, in the words of KonfAI. What values may be is in the types of its program, which is not run. */
export interface ModelParameters {
  readonly values: Readonly<Record<string, unknown>>;
  readonly constraints: Readonly<Record<string, never>>;
  /** Where the values are in the configuration: a nested one is set by its whole path. */
  readonly path: string;
}

/** What an app's `Prediction.yml` says of it, as far as it can be read: both are hints for a person. */
export interface PredictionFacts {
  /** Voxels along each axis. */
  readonly patchSize: number[] | null;
  readonly parameters: ModelParameters | null;
}

function parametersOf(document: unknown): ModelParameters | null {
  const found = model.safeParse(document).data?.Predictor.Model ?? {};
  for (const [name, value] of Object.entries(found)) {
    const values = name === 'classpath' ? undefined : block.safeParse(value).data;
    if (!values) continue;
    const own = Object.entries(values).filter(([key]) => !structural.includes(key));
    if (own.length === 0) return null;
    // Throws for a value that holds itself, which YAML can write.
    const text = JSON.stringify(Object.fromEntries(own));
    // Repeated parts are one in YAML, and many here.
    if (text.length > longestValues) return null;
    return { values: JSON.parse(text), constraints: {}, path: `Predictor.Model.${name}` };
  }
  return null;
}

/** Reads what an app's `Prediction.yml` says. */
export function readPrediction(directory: string): PredictionFacts {
  try {
    const text = readSmallFile(path.join(directory, 'Prediction.yml'));
    if (isDeepYaml(text)) return { patchSize: null, parameters: null };
    // KonfAI's files have tags of its own. They mean nothing here. Errors are not shown, and repeated keys are not looked
    // for: both take a time that grows with the square of the length.
    const options = { logLevel: 'silent', prettyErrors: false, uniqueKeys: false } as const;
    const document: unknown = parse(text, options);
    const patch = prediction.safeParse(document).data;
    return {
      patchSize: patch?.Predictor.Dataset.Patch.patch_size ?? null,
      parameters: parametersOf(document),
    };
  } catch {
    return { patchSize: null, parameters: null };
  }
}
