import type { Field, FieldRole } from './fields.js';

/** What an app can do. */
export type Capability = 'inference' | 'evaluation' | 'uncertainty' | 'fine-tuning';

/** A capability that an operation needs from an app. */
export interface Need {
  readonly capability: Capability;
  /** The field that names the configuration file. An app without the default file may have one with another name. */
  readonly file?: string;
  /** The boolean field that turns this part of the operation off. */
  readonly declinedBy?: string;
}

/**
 * THE table: the operations and their fields (docs/http.md, Submission and The app's command line). Validation, the flags of the
 * commands, the app's argument list and the reference page derive from it. Nothing else in the program refers to an operation by
 * name: every difference between operations is a column here.
 *
 * Fields are listed in the order of the app's command line. `outputArgument` and the result directory come just before the
 * devices, the first of which is the field with the role `gpus`. Fields that are only for the service come last.
 */
export interface Operation {
  /** Last part of the submission path, and the operation's name in a job's record. */
  readonly segment: string;
  /** The word on the app's command line. */
  readonly verb: string;
  /** The command of `remote-app`. */
  readonly command: string;
  /** One line, starting with a verb. */
  readonly summary: string;
  /** The server limit (`GET /limits`) that applies to the run time. */
  readonly timeLimit: 'max_run_time' | 'max_fine_tune_time';
  /**
   * What the paths are: files for the inputs in the app's description, files written by an app, or one data set. Only files of
   * the first two kinds form cases.
   */
  readonly paths: 'inputs' | 'results' | 'dataSet';
  /** Whether the result consists of the outputs in the app's description; otherwise it holds scores or uncertainties. */
  readonly writesOutputs: boolean;
  readonly needs: readonly Need[];
  readonly fields: readonly Field[];
}

/** The flag on the app's command line that names the directory of the result. */
export const outputArgument = '--output';

const inputs: Field = {
  name: 'inputs',
  kind: 'files',
  role: 'paths',
  required: true,
  argument: '--inputs',
  char: 'i',
  help:
    'Input files or directories of one group, such as one channel. Repeat the flag for each further group; quote ' +
    'patterns',
};
const gt: Field = {
  name: 'gt',
  kind: 'files',
  required: true,
  argument: '--gt',
  help: 'Ground truth volumes, in the same order as the inputs',
};
const mask: Field = {
  name: 'mask',
  kind: 'files',
  argument: '--mask',
  help: 'Masks that restrict the evaluation to a region, in the same order as the inputs',
};
const ensemble: Field = {
  name: 'ensemble',
  kind: 'integer',
  default: 0,
  min: 0,
  argument: '--ensemble',
  alternative: 'ensemble_models',
  bound: 'checkpointCount',
  help: 'Number of checkpoints to run as an ensemble',
};
const ensembleModels: Field = {
  name: 'ensemble_models',
  kind: 'paths',
  argument: '--ensemble_models',
  bound: 'checkpointNames',
  help: 'Names of the checkpoints to use as an ensemble',
};
const tta: Field = {
  name: 'tta',
  kind: 'integer',
  default: 0,
  min: 0,
  argument: '--tta',
  bound: 'maximum_tta',
  help: 'Number of augmented passes (test-time augmentation)',
};
const mc: Field = {
  name: 'mc',
  kind: 'integer',
  default: 0,
  min: 0,
  argument: '--mc',
  bound: 'mc_dropout',
  help: 'Number of stochastic passes (MC dropout)',
};
const predictionFile: Field = {
  name: 'prediction_file',
  kind: 'path',
  default: 'Prediction.yml',
  argument: '--prediction_file',
  help: "The app's prediction configuration",
};
const evaluationFile: Field = {
  name: 'evaluation_file',
  kind: 'path',
  default: 'Evaluation.yml',
  argument: '--evaluation_file',
  help: "The app's evaluation configuration",
};
const uncertaintyFile: Field = {
  name: 'uncertainty_file',
  kind: 'path',
  default: 'Uncertainty.yml',
  argument: '--uncertainty_file',
  help: "The app's uncertainty configuration",
};
const uncertainty: Field = {
  name: 'uncertainty',
  kind: 'boolean',
  default: false,
  argument: '-uncertainty',
  help: 'Also write the stack of all passes, which uncertainty estimation needs',
};
const patchSize: Field = {
  name: 'patch_size',
  kind: 'integers',
  min: 0,
  argument: '--patch_size',
  option: true,
  bound: 'patchSize',
  help: 'Patch size in voxels, such as 96,96,96; 0 does not split that axis',
};
const maxVoxels: Field = {
  name: 'max_voxels',
  kind: 'integer',
  min: 1,
  argument: '--max_voxels',
  option: true,
  help: 'Maximum number of voxels processed at once',
};
const batchSize: Field = {
  name: 'batch_size',
  kind: 'integer',
  min: 0,
  argument: '--batch_size',
  option: true,
  help: 'Number of patches processed at once; 0 lets the app choose what fits',
};
const configOverrides: Field = {
  name: 'config_overrides',
  kind: 'overrides',
  argument: '--set',
  option: true,
  flag: 'set',
  bound: 'parameters',
  help: "Override a value of the app's configuration: NAME=VALUE",
};
const gpu: Field = {
  name: 'gpu',
  kind: 'gpus',
  role: 'gpus',
  argument: '--gpu',
  help: 'GPU ids, such as 0 or 0,1 [default: any free GPU]',
};
const cpu: Field = {
  name: 'cpu',
  kind: 'integer',
  role: 'workers',
  alternative: 'gpu',
  default: 1,
  min: 1,
  argument: '--cpu',
  help: 'Run on the CPU, with this many workers',
};
const keep: Field = {
  name: 'keep',
  kind: 'duration',
  role: 'keep',
  help:
    "How long the server keeps the finished job, such as 12h or 7d; 'max' is the longest it allows. Commands " +
    'that wait for the job ask for one day',
};
const timeLimit: Field = {
  name: 'time_limit',
  kind: 'duration',
  role: 'timeLimit',
  help: "Time limit, such as 30m, after which the job is stopped; 'max', the default, is the longest the server allows",
};
const retryAlone: Field = {
  name: 'retry_alone',
  kind: 'boolean',
  role: 'retryAlone',
  default: false,
  help: 'If the job runs out of memory, run it once more with its GPUs to itself',
};
const tag: Field = {
  name: 'tag',
  kind: 'text',
  role: 'tag',
  help:
    "A label of your own for the job or a group of jobs, such as the name of a study; 'jobs', 'wait' and 'kill' " +
    'can select by it',
};
const quiet: Field = {
  name: 'quiet',
  kind: 'boolean',
  default: false,
  argument: '--quiet',
  help: 'Make the app print less',
};

const deidentified: Field = {
  name: 'deidentified',
  kind: 'boolean',
  role: 'deidentified',
  default: false,
  flag: 'deidentify',
  help: 'Declares that nothing in the files or their names identifies a person; comes before the files',
};

/** Fields that every operation has, at the end. */
const common = [quiet, keep, timeLimit, retryAlone, tag, deidentified] as const;

const inference: Need = { capability: 'inference' };
const evaluation: Need = { capability: 'evaluation', file: 'evaluation_file' };
const uncertaintyEstimation: Need = { capability: 'uncertainty', file: 'uncertainty_file' };

export const operations = {
  infer: {
    segment: 'infer',
    verb: 'infer',
    command: 'infer',
    summary: 'Run inference on volumes',
    timeLimit: 'max_run_time',
    paths: 'inputs',
    writesOutputs: true,
    needs: [inference],
    fields: [
      tta,
      mc,
      predictionFile,
      uncertainty,
      ensembleModels,
      { ...ensemble, unless: 'ensemble_models' },
      patchSize,
      maxVoxels,
      batchSize,
      configOverrides,
      gpu,
      cpu,
      { ...inputs, bound: 'inputs' },
      ...common,
    ],
  },
  evaluate: {
    segment: 'evaluate',
    verb: 'eval',
    command: 'evaluate',
    summary: 'Evaluate predictions against ground truth',
    timeLimit: 'max_run_time',
    paths: 'results',
    writesOutputs: false,
    needs: [evaluation],
    fields: [evaluationFile, gpu, cpu, { ...inputs, help: 'Predictions to evaluate' }, gt, mask, ...common],
  },
  uncertainty: {
    segment: 'uncertainty',
    verb: 'uncertainty',
    command: 'uncertainty',
    summary: 'Estimate uncertainty from stacks of predictions',
    timeLimit: 'max_run_time',
    paths: 'results',
    writesOutputs: false,
    needs: [uncertaintyEstimation],
    fields: [
      uncertaintyFile,
      gpu,
      cpu,
      { ...inputs, help: 'Multi-component stacks written by an inference' },
      ...common,
    ],
  },
  pipeline: {
    segment: 'pipeline',
    verb: 'pipeline',
    command: 'pipeline',
    summary: 'Run inference, then evaluation, then uncertainty estimation',
    timeLimit: 'max_run_time',
    paths: 'inputs',
    writesOutputs: false,
    needs: [inference, evaluation, { ...uncertaintyEstimation, declinedBy: 'uncertainty' }],
    fields: [
      ensemble,
      tta,
      mc,
      predictionFile,
      evaluationFile,
      uncertaintyFile,
      { ...uncertainty, default: true, help: 'Also estimate the uncertainty' },
      ensembleModels,
      patchSize,
      maxVoxels,
      batchSize,
      configOverrides,
      gpu,
      cpu,
      { ...inputs, bound: 'inputs' },
      gt,
      mask,
      ...common,
    ],
  },
  fine_tune: {
    segment: 'fine_tune',
    verb: 'fine-tune',
    command: 'fine-tune',
    summary: 'Fine-tune checkpoints on a data set',
    timeLimit: 'max_fine_tune_time',
    paths: 'dataSet',
    writesOutputs: false,
    needs: [{ capability: 'fine-tuning', file: 'config_file' }],
    fields: [
      { name: 'name', kind: 'name', default: 'Finetune', help: 'Name of the run' },
      {
        name: 'config_file',
        kind: 'path',
        default: 'Config.yml',
        argument: '--config',
        help: "The app's training configuration",
      },
      {
        name: 'epochs',
        kind: 'integer',
        default: 10,
        min: 1,
        argument: '--epochs',
        help: 'Number of passes over the data set',
      },
      {
        name: 'it_validation',
        kind: 'integer',
        default: 1000,
        min: 1,
        argument: '--it_validation',
        help: 'Number of iterations between validations',
      },
      {
        name: 'models',
        kind: 'paths',
        argument: '--models',
        bound: 'checkpointNames',
        help: 'Names of the checkpoints to fine-tune',
      },
      { name: 'lr', kind: 'number', above: 0, argument: '--lr', help: 'Learning rate' },
      {
        name: 'dataset',
        kind: 'archive',
        role: 'paths',
        required: true,
        argument: '--dataset',
        char: 'd',
        help: 'The data set: a directory, or a zip archive of it',
      },
      batchSize,
      configOverrides,
      gpu,
      cpu,
      ...common,
    ],
  },
} as const satisfies Record<string, Operation>;

export type OperationName = keyof typeof operations;

export const operationNames = Object.keys(operations) as readonly OperationName[];

/** A value for each operation, by its name. */
export const eachOperation = <T>(make: (name: OperationName) => T): Record<OperationName, T> =>
  Object.fromEntries(operationNames.map((name) => [name, make(name)])) as Record<OperationName, T>;

/** The operation with this name, typed as `Operation`. */
export const operationOf = (name: OperationName): Operation => operations[name];

/**
 * The command that runs an operation.
 * @param name as sent by the server; an unknown name, from another server, is returned unchanged
 */
export const commandOf = (name: string): string =>
  Object.hasOwn(operations, name) ? operationOf(name as OperationName).command : name;

/** The field of an operation with this role. Each role occurs once in every operation. */
export function fieldWithRole({ segment, fields }: Operation, role: FieldRole): Field {
  const field = fields.find((each) => each.role === role);
  if (!field) throw new Error(`The operation ${segment} has no field with the role ${role}`);
  return field;
}
