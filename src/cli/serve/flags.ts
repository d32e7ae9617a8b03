import type { Interfaces } from '@oclif/core';
import * as Flags from '@oclif/core/flags';
import {
  defaultHost,
  defaultPort,
  keepAliveInterval,
  longestDuration,
  tokenVariable,
} from '../../contract/index.js';
import { wholeNumber } from '../command/index.js';
import { durationFlag, filledPathFlag, jobMemoryFlag, runTimeFlag, sizeFlag, textFlag } from './values.js';

/** A flag that may be given several times, one word each time. */
const repeatable = Flags.custom<string>({
  multiple: true,
  multipleNonGreedy: true,
  default: [],
  // oclif would show an empty list as `[default: ]`.
  defaultHelp: async () => undefined,
});

/** Levels of the server's log, the most important one first. A level shows itself and those before it. */
export const logLevels = ['error', 'warn', 'info', 'debug'] as const;
export type LogLevel = (typeof logLevels)[number];

/** What a line of JSON says besides its message. */
export type LogFields = Readonly<Record<string, unknown>>;

/** A line of the server's log in JSON, without its line end. */
export const logLine = (level: LogLevel, message: string, fields: LogFields = {}): string =>
  JSON.stringify({ time: new Date().toISOString(), level, message, ...fields });

/** How a line of the server's log is written. */
const logFormats = ['text', 'json'] as const;
type LogFormat = (typeof logFormats)[number];

export interface LogSettings {
  readonly format: LogFormat;
  readonly level: LogLevel;
}

/** The flags of `serve` that say what jobs see of the machine. */
const sandboxFlags = {
  sandbox: Flags.option({
    options: ['auto', 'bwrap', 'off'] as const,
    default: 'auto',
    summary:
      "How jobs are kept apart: 'auto' uses bubblewrap if it works, 'bwrap' refuses to start without it",
  })(),
  network: repeatable({
    helpValue: 'APP',
    summary: 'App whose jobs may use the network in their sandbox',
  }),
  bind: repeatable({
    helpValue: 'PATH',
    summary: 'File or directory that jobs may read in their sandbox, such as models',
  }),
  'bind-rw': repeatable({
    helpValue: 'PATH',
    summary: 'The same, but writable, such as a cache of models',
  }),
  'processes-per-job': wholeNumber({
    helpValue: 'N',
    default: 4096,
    min: 1,
    summary:
      'Most processes and threads of a job in its sandbox; more are refused, or end the job of a server that is root',
  }),
  'memory-per-job': jobMemoryFlag({
    helpValue: 'SIZE',
    summary: 'Most memory of a job in its sandbox, at least 64MiB; unlimited by default',
  }),
  'pass-env': repeatable({
    helpValue: 'NAME',
    summary: "Variable of the server's environment to pass on to jobs",
  }),
};

/** The flags of `serve` that say where jobs run. */
const slurmFlags = {
  executor: Flags.option({
    options: ['local', 'slurm'] as const,
    default: 'local',
    summary: 'Where jobs run: on this machine, or on the nodes of the Slurm cluster that it belongs to',
  })(),
  'slurm-partition': Flags.string({
    helpValue: 'NAME',
    summary: 'Partition of the jobs; by default that of the cluster',
  }),
  'slurm-account': Flags.string({ helpValue: 'NAME', summary: 'Account that the jobs are charged to' }),
  'slurm-qos': Flags.string({ helpValue: 'NAME', summary: 'Quality of service of the jobs' }),
  'slurm-time': Flags.string({
    helpValue: 'TIME',
    summary: 'Time limit of the jobs in Slurm, as sbatch spells it, such as 4:00:00 or 2-0',
  }),
  'slurm-constraint': Flags.string({
    helpValue: 'FEATURES',
    summary: 'Features that a node needs to run the jobs',
  }),
  'slurm-arg': repeatable({
    helpValue: 'WORD',
    summary: 'Further word for sbatch, whole, such as --slurm-arg=--mem=16G; repeatable',
  }),
};

/** The flags of `serve`. */
export const serveFlags = {
  config: filledPathFlag({
    helpValue: 'FILE',
    summary:
      'YAML file with any of these flags, such as "port: 8000"; a flag on the command line takes precedence',
  }),
  check: Flags.boolean({
    summary:
      'Check everything that the server needs (apps, engine, data directory, address, token, GPUs), report problems, and exit',
  }),
  host: textFlag({ default: defaultHost, helpValue: 'ADDRESS', summary: 'Address to listen on' }),
  port: wholeNumber({
    helpValue: 'N',
    default: defaultPort,
    min: 0,
    max: 65535,
    summary: 'Port; 0 takes any free one',
  }),
  auth: Flags.option({
    options: ['bearer', 'required', 'off'] as const,
    default: 'bearer',
    summary:
      "Who is let in: 'bearer' asks for the token if one is set, 'required' always does, 'off' lets everybody in",
  })(),
  'token-env': textFlag({
    default: tokenVariable,
    helpValue: 'NAME',
    summary: 'Environment variable that holds the token',
  }),
  'token-file': filledPathFlag({
    helpValue: 'FILE',
    summary: 'File that holds the token, readable by its owner alone; takes precedence over the environment',
  }),
  tokens: filledPathFlag({
    helpValue: 'FILE',
    summary: "File of named tokens, made by 'token create'; each token sees only its own jobs",
  }),
  'audit-log': filledPathFlag({
    helpValue: 'FILE',
    summary:
      'Append a JSON line to this file for each submission, upload, end, download, kill, removal, refusal, drain and change of a token',
  }),
  'trusted-proxy': repeatable({
    helpValue: 'ADDRESS',
    summary:
      'Proxy, or network such as 10.0.0.0/8, whose X-Forwarded-For header is trusted; repeatable. One on this machine needs --proxy-secret-file',
  }),
  'proxy-secret-file': filledPathFlag({
    helpValue: 'FILE',
    summary: 'File with a secret that trusted proxies send in the header X-Proxy-Secret',
  }),
  apps: repeatable({
    helpValue: 'SOURCE',
    summary:
      'An app directory, a directory of them, a JSON file {"apps": [...]}, or an app of a Hugging Face repository, owner/name[@revision]:app; repeatable',
  }),
  engine: textFlag({
    default: 'konfai-apps',
    helpValue: 'COMMAND',
    summary: 'Program that runs the apps without a command of their own',
  }),
  'engine-resident': Flags.boolean({
    default: false,
    summary: 'Keep the engine loaded between jobs; it is started as COMMAND resident',
  }),
  'resident-idle': durationFlag({
    default: '10m',
    helpValue: 'TIME',
    summary: 'How long an idle app stays loaded ("resident": true in its app.json); 0 starts it for each job',
  }),
  'share-workers': repeatable({
    helpValue: 'APP',
    summary:
      'App that, once loaded, runs jobs of all owners, one after another ("shared": true in its app.json); repeatable',
  }),
  download: Flags.boolean({
    default: false,
    summary: 'Download the apps of repositories completely, weights included, before the server listens',
  }),
  'data-dir': filledPathFlag({
    helpValue: 'DIR',
    summary: "Directory of the jobs; by default in the user's data directory",
  }),
  'max-jobs': wholeNumber({
    helpValue: 'N',
    default: 256,
    min: 1,
    summary: "Most jobs active at once, beside those that wait for the limit of their owner ('token limit')",
  }),
  'user-max-jobs': wholeNumber({
    helpValue: 'N',
    min: 1,
    summary: "Most jobs of one person at once, while further ones wait, unless 'token limit' says otherwise",
  }),
  'user-max-kept': sizeFlag({
    helpValue: 'SIZE',
    summary: "Most that the jobs and uploads of one person may keep, unless 'token limit' says otherwise",
  }),
  'max-file-size': sizeFlag({
    default: '2GiB',
    helpValue: 'SIZE',
    summary: 'Largest file of an upload: 2G and 2GiB are 2 x 1024^3 bytes, 2GB is 2 x 1000^3',
  }),
  'max-upload-size': sizeFlag({
    default: '6GiB',
    helpValue: 'SIZE',
    summary: 'Largest upload, in the same units',
  }),
  'max-dataset-size': sizeFlag({
    helpValue: 'SIZE',
    summary:
      'Largest data set of a fine-tuning: its archive, and what that extracts to; by default the limits of any ' +
      'other archive, which may extract to ten times --max-upload-size',
  }),
  'require-deidentified': Flags.boolean({
    default: false,
    summary:
      'Take de-identified scans alone: refuse submissions that do not claim it, and DICOM files that tell who somebody is',
  }),
  'disk-per-job': sizeFlag({
    helpValue: 'SIZE',
    summary:
      'Most that one job may write; it is ended when it has written more. By default a tenth of the disk, at least 10GiB',
  }),
  grace: wholeNumber({
    helpValue: 'SECONDS',
    default: 120,
    min: 0,
    max: longestDuration,
    summary: 'Seconds that a job is kept once it has ended, if it asks for nothing else',
  }),
  'max-keep': durationFlag({
    default: '7d',
    helpValue: 'TIME',
    summary: 'How long a job may ask to be kept once it has ended, such as 90s, 12h or 7d',
  }),
  'keep-uploads': durationFlag({
    default: '1d',
    helpValue: 'TIME',
    summary:
      'How long a file that was sent is kept after its last use, so that it need not be sent again; 0 keeps none, and takes forms alone',
  }),
  'max-run-time': runTimeFlag({
    helpValue: 'TIME',
    summary: 'Longest run time of a job, such as 2h, after which it is ended; unlimited by default',
  }),
  'max-fine-tune-time': runTimeFlag({
    helpValue: 'TIME',
    summary: 'The same for fine-tuning; by default the limit of other jobs',
  }),
  keepalive: wholeNumber({
    helpValue: 'SECONDS',
    default: keepAliveInterval,
    min: 1,
    max: 24 * 3600,
    summary: 'Seconds of silence between keep-alives of a log',
  }),
  'share-gpus': Flags.boolean({
    default: false,
    summary:
      'Let jobs share a GPU as long as what their apps declare ("gpu_memory" in app.json) fits into its memory',
  }),
  'gpu-margin': sizeFlag({
    default: '512MiB',
    helpValue: 'SIZE',
    summary:
      'Memory of a shared GPU that each job takes beyond what its app declares, such as that of the CUDA context',
  }),
  'cpu-slots': wholeNumber({
    helpValue: 'N',
    min: 1,
    summary: 'CPU workers shared by the CPU jobs; by default all cores',
  }),
  metrics: Flags.boolean({ summary: 'Serve GET /metrics to admins' }),
  'metrics-port': wholeNumber({
    helpValue: 'N',
    min: 0,
    max: 65535,
    summary: 'The same, and on a port of its own without a token; 0 takes any free one',
  }),
  'metrics-host': textFlag({
    default: defaultHost,
    helpValue: 'ADDRESS',
    summary: 'Address for --metrics-port',
  }),
  'log-format': Flags.option({
    options: logFormats,
    default: 'text',
    summary: 'Format of the lines on stderr: text for people, or one JSON object per line',
  })(),
  'log-level': Flags.option({
    options: logLevels,
    default: 'info',
    summary: "How much is written to stderr; 'info' has a line for each step of a job and each refusal",
  })(),
  ...slurmFlags,
  ...sandboxFlags,
  'on-end': textFlag({
    helpValue: 'PROGRAM',
    summary: 'Program to run for each job that ends, with a JSON document about the job on stdin',
  }),
  'on-exit': Flags.option({
    options: ['kill', 'keep'] as const,
    default: 'kill',
    summary: 'What happens to active jobs when the server stops',
  })(),
};

/** As parsed. */
export type ServeFlags = Interfaces.InferredFlags<typeof serveFlags>;
