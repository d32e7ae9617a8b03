import { z } from 'zod';
import { type AppManifest, gpuUses, operationNames, parseSize } from '../../contract/index.js';

/**
 * `app.json` of an app directory (docs/apps.md). Unknown keys are ignored. The descriptions are those of docs/app.schema.json,
 * which editors show.
 */

export const volumeSchema = z.object({
  display_name: z.string().describe('Description of the volume for people'),
  volume_type: z
    .string()
    .describe(
      'VOLUME for an image, SEGMENTATION for labels; neither accepts pictures, tables, documents or archives. Any ' +
        'other word is only shown, and accepts any file',
    ),
  required: z.boolean().default(true).describe('false if the app also runs without it'),
  default: z.string().nullable().default(null).describe('Left empty; for clients that know a default volume'),
  unit: z
    .string()
    .min(1)
    .max(20)
    .optional()
    .describe('Unit of its values, such as HU or ms; pictures show it if the file itself does not say'),
});
const volumes = z.record(z.string(), volumeSchema);

const size = z.string().refine((text) => parseSize(text), 'a size looks like 8GiB');

const resources = z.strictObject({
  gpu: z
    .enum(gpuUses)
    .optional()
    .describe("'required' refuses jobs on the CPU; 'optional' is the default; with 'none', jobs get no GPU"),
  gpu_memory: size.optional().describe('Maximum memory that a job uses on each of its GPUs, such as 8GiB'),
  memory: size.optional().describe('Maximum memory that a job uses, such as 24GiB'),
  cpus: z.number().int().min(1).optional().describe('Number of CPUs that a job keeps busy'),
  disk: size.optional().describe('Maximum that a job writes to disk, such as 20GiB'),
});

export const appManifestSchema = z.object({
  display_name: z.string().describe('Name of the app for people'),
  description: z.string().describe('What the app does and what its limits are, in a paragraph'),
  short_description: z.string().describe('What the app does, in one line'),
  tta: z
    .number()
    .int()
    .min(0)
    .describe('Maximum number of test-time augmentation passes (--tta); 0 if there are none'),
  mc_dropout: z
    .number()
    .int()
    .min(0)
    .describe('Maximum number of MC dropout passes (--mc); 0 if there are none'),
  inputs: volumes
    .default({})
    .describe(
      'The inputs of one case, under any keys; each is one group of --inputs. Without any, the app is listed as ' +
        'one without inference',
    ),
  outputs: volumes.default({}).describe('The outputs for one case, under any keys'),
  inputs_evaluations: z
    .record(z.string(), z.record(z.string(), volumes))
    .default({})
    .describe(
      'The inputs of each evaluation, by its name and then by its file (Evaluation.yml). Without any, the app is ' +
        'listed as one without evaluation',
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
            'All values that belong to it, for overlapping regions: [1, 2, 3] for a whole tumour. By default, only its ' +
              'own value',
          ),
        snomed: z
          .object({
            code: z
              .string()
              .regex(/^\d{6,16}$/)
              .describe('Code of the concept, such as 10200004'),
            meaning: z.string().min(1).max(64).describe('Name of the concept, such as Liver'),
          })
          .optional()
          .describe('What it marks, as a SNOMED CT code; used in DICOM SEG (--as dicom-seg)'),
      }),
    )
    .optional()
    .describe('Name and colour of each label, by its value'),
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
    .describe('What to cite in work that uses the app; stored in records, and printed by `remote-app cite`'),
  models: z
    .array(z.string())
    .optional()
    .describe('File names of the checkpoints, in order; by default, all files with weights in the directory'),
  patch_size: z
    .array(z.number().int().min(0))
    .nullable()
    .default(null)
    .describe(
      'Usual patch size, in voxels along each axis; 0 for an axis that is not split; null if there is none',
    ),
  parameters: z
    .unknown()
    .optional()
    .meta({
      description:
        'What --set NAME=VALUE can change: for each name a value, or an object that describes the allowed values. ' +
        'Other names and values are refused. Without it, nothing is refused',
      type: 'object',
      additionalProperties: {
        properties: {
          type: {
            enum: ['number', 'integer', 'boolean', 'text'],
            description: 'By default, the type of the default value',
          },
          default: { description: 'Value without --set' },
          min: { type: 'number', description: 'Least number' },
          max: { type: 'number', description: 'Greatest number' },
          choices: { type: 'array', minItems: 1, description: 'All allowed values' },
          description: { type: 'string', description: 'Description for people' },
        },
      },
    }),
  resources: resources
    .extend({
      operations: z
        .partialRecord(z.enum(operationNames as [(typeof operationNames)[number]]), resources)
        .optional()
        .describe('Values that differ for some operations, by their names, such as fine_tune'),
    })
    .optional()
    .describe(
      'What a job needs. A server that does not have it refuses the job before anything is uploaded. Without it, nothing is checked or reserved',
    ),
  retry_alone: z
    .boolean()
    .optional()
    .describe(
      'true to run a job that runs out of memory once more, with its GPUs to itself, as with `--retry-alone`',
    ),
  command: z
    .array(z.string().min(1))
    .min(1)
    .optional()
    .describe(
      'Program and its first arguments, run without a shell. An element that names a file or directory of the app ' +
        "is made absolute. Without it, the server's engine runs the app",
    ),
  resident: z
    .boolean()
    .optional()
    .describe(
      'true to start the command once and give it one job after another, so that it loads its model only once. ' +
        'Needs `command`, and a program that follows docs/resident.md',
    ),
  shared: z
    .boolean()
    .optional()
    .describe(
      'true if the program keeps nothing of a job, so that one process may run the jobs of several people where ' +
        'the admin allows it (serve --share-workers). Needs `resident`',
    ),
}) satisfies z.ZodType<AppManifest>;
