import { z } from 'zod';
import { type AppManifest, gpuUses, operationNames, parseSize } from '../../contract/index.js';

/**
 * `app.json` of an app directory (docs/apps.md). Unknown keys are left alone. The descriptions are those of
 * docs/app.schema.json, which editors show.
 */

export const volumeSchema = z.object({
  display_name: z.string().describe('What the volume is, for a person'),
  volume_type: z
    .string()
    .describe(
      'VOLUME for an image, SEGMENTATION for labels: no picture, table, document or archive is taken for these; another word is shown, and takes any file',
    ),
  required: z.boolean().default(true).describe('false: the app runs without it'),
  default: z.string().nullable().default(null).describe('Left empty; for clients that know a default volume'),
  unit: z
    .string()
    .min(1)
    .max(20)
    .optional()
    .describe('Unit of its values, such as HU or ms: pictures name it where the file itself does not'),
});
const volumes = z.record(z.string(), volumeSchema);

const size = z.string().refine((text) => parseSize(text), 'a size looks like 8GiB');

const resources = z.strictObject({
  gpu: z
    .enum(gpuUses)
    .optional()
    .describe('required: jobs on the CPU are refused; optional (the default); none: jobs get no GPU'),
  gpu_memory: size
    .optional()
    .describe('GPU memory that a job uses on each of its GPUs at most, such as 8GiB'),
  memory: size.optional().describe('Memory that a job uses at most, such as 24GiB'),
  cpus: z.number().int().min(1).optional().describe('CPUs that a job keeps busy'),
  disk: size.optional().describe('What a job writes at most, such as 20GiB'),
});

export const appManifestSchema = z.object({
  display_name: z.string().describe("The app's name, for a person"),
  description: z.string().describe('What it does, with what limits, in a paragraph'),
  short_description: z.string().describe('What it does, in one line'),
  tta: z.number().int().min(0).describe('Most passes of test-time augmentation (--tta); 0: it has none'),
  mc_dropout: z.number().int().min(0).describe('Most passes of MC dropout (--mc); 0: it has none'),
  inputs: volumes
    .default({})
    .describe(
      'By any key, what one case consists of: one group of --inputs each. Without an entry the app is listed as one without inference',
    ),
  outputs: volumes.default({}).describe('By any key, what it writes for a case'),
  inputs_evaluations: z
    .record(z.string(), z.record(z.string(), volumes))
    .default({})
    .describe(
      'By name of an evaluation, then by its file (Evaluation.yml), what it reads. Without an entry the app is listed as one without evaluation',
    ),
  terminology: z
    .record(
      z.string(),
      z.object({
        name: z.string().describe('What the label means'),
        color: z.string().describe('As in HTML: #e0b088'),
        values: z
          .array(z.int())
          .min(1)
          .max(256)
          .optional()
          .describe(
            'All values that belong to it, for regions that overlap: [1, 2, 3] of a whole tumour. Without them, its own value alone',
          ),
        snomed: z
          .object({
            code: z
              .string()
              .regex(/^\d{6,16}$/)
              .describe('The number of the concept: 10200004'),
            meaning: z.string().min(1).max(64).describe('What the concept is called there: Liver'),
          })
          .optional()
          .describe('What it marks, by SNOMED CT: DICOM SEG (--as dicom-seg) says it in this code'),
      }),
    )
    .optional()
    .describe('By value of a label, its name and its colour'),
  citation: z
    .array(
      z.object({
        text: z.string().min(1).describe('Authors, title, journal and year'),
        doi: z
          .string()
          .regex(/^10\.\d{4,9}\/\S+$/, 'a DOI looks like 10.1038/s41592-020-01008-z')
          .optional()
          .describe('Without https://doi.org/'),
        licence: z.string().min(1).optional().describe('Licence of the weights, such as CC-BY-4.0'),
      }),
    )
    .optional()
    .describe('What to cite in a work that uses the app; records keep it, and `remote-app cite` prints it'),
  models: z
    .array(z.string())
    .optional()
    .describe(
      'Checkpoints by file name, the first one first; without it, all files with weights in the directory',
    ),
  patch_size: z
    .array(z.number().int().min(0))
    .nullable()
    .default(null)
    .describe(
      'Usual patch size, in voxels along each axis, 0 for an axis that stays whole; null: it has none',
    ),
  parameters: z
    .unknown()
    .optional()
    .meta({
      description:
        'What --set NAME=VALUE changes: by name a value, or an object with what it may be. Other names and values are refused. Without it, nothing is',
      type: 'object',
      additionalProperties: {
        properties: {
          type: {
            enum: ['number', 'integer', 'boolean', 'text'],
            description: 'By default that of the default',
          },
          default: { description: 'What it is without --set' },
          min: { type: 'number', description: 'Least number' },
          max: { type: 'number', description: 'Greatest number' },
          choices: { type: 'array', minItems: 1, description: 'All values that it may have' },
          description: { type: 'string', description: 'What it changes, for a person' },
        },
      },
    }),
  resources: resources
    .extend({
      operations: z
        .partialRecord(z.enum(operationNames as [(typeof operationNames)[number]]), resources)
        .optional()
        .describe('What differs for single operations, by their names, such as fine_tune'),
    })
    .optional()
    .describe(
      'What a job needs. A server that does not have it refuses the job before anything is uploaded. Without it, nothing is checked or reserved',
    ),
  retry_alone: z
    .boolean()
    .optional()
    .describe(
      'true: a job that runs out of memory runs once more, with its GPUs to itself, as with `--retry-alone`',
    ),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Program and first arguments, run without a shell. An element that names a file or a directory in this one is made absolute. Without it, the engine of the server runs the app',
    ),
  resident: z
    .boolean()
    .optional()
    .describe(
      'true: the command is started once and given job after job, so that it loads its model once. Needs `command`, and a program that does what docs/resident.md says',
    ),
  shared: z
    .boolean()
    .optional()
    .describe(
      'true: the program keeps nothing of a job, so that one process may run jobs of several people where the admin allows it (serve --share-workers). Needs `resident`',
    ),
}) satisfies z.ZodType<AppManifest>;
