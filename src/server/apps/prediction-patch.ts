import { readFileSync } from 'node:fs';
import path from 'node:path';
import { parse } from 'yaml';
import { z } from 'zod';

/** The part of a prediction configuration that says how large its patches are. */
const prediction = z.object({
  Predictor: z.object({
    Dataset: z.object({
      Patch: z.object({ patch_size: z.array(z.coerce.number().int().min(0)).min(1) }),
    }),
  }),
});

/**
 * Reads the patch size of an app from its `Prediction.yml`, which is where KonfAI's apps have it.
 * @returns voxels along each axis; null if it does not say, or cannot be read: it is a hint for a person
 */
export function readPatchSize(directory: string): number[] | null {
  try {
    const text = readFileSync(path.join(directory, 'Prediction.yml'), 'utf8');
    // KonfAI's files have tags of its own. They mean nothing here.
    return prediction.parse(parse(text, { logLevel: 'silent' })).Predictor.Dataset.Patch.patch_size;
  } catch {
    return null;
  }
}
