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

/** A flag that can be repeated, with one value each time. */
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

/** Extra fields of a JSON log line. */
export type LogFields = Readonly<Record<string, unknown>>;

/** A line of the server's log in JSON, without its line end. */
export const logLine = (level: LogLevel, message: string, fields: LogFields = {}): string =>
  JSON.stringify({ time: new Date().toISOString(), level, message, ...fields });

/** Formats of the server's log. */
const logFormats = ['text', 'json'] as const;
type LogFormat = (typeof logFormats)[number];

export interface LogSettings {
  readonly format: LogFormat;
  readonly level: LogLevel;
}

/** The flags of `serve` for what jobs can see of the machine. */
const sandboxFlags = {
  sandbox: Flags.option({
    options: ['auto', 'bwrap', 'off'] as const,
    default: 'auto',
    summary:
      "How jobs are isolated: 'auto' uses bubblewrap if it works, 'bwrap' refuses to start without it, 'off' does " +
      'not isolate them',
  })(),
  network: repeatable({
    helpValue: 'APP',
    summary: 'App whose jobs may use the network (repeatable)',
  }),
  bind: repeatable({
    helpValue: 'PATH',
    summary: 'File or directory that sandboxed jobs may read, such as models (repeatable)',
  }),
  'bind-rw': repeatable({
    helpValue: 'PATH',
    summary: 'File or directory that sandboxed jobs may also write, such as a model cache (repeatable)',
  }),
  'processes-per-job': wholeNumber({
    helpValue: 'N',
    default: 4096,
    min: 1,
    summary:
      'Maximum number of processes and threads of a sandboxed job; more are refused, or end the job if the server ' +
      'runs as root',
  }),
  'memory-per-job': jobMemoryFlag({
    helpValue: 'SIZE',
    summary: 'Maximum memory of a sandboxed job, at least 64MiB [default: unlimited]',
  }),
  'pass-env': repeatable({
    helpValue: 'NAME',
    summary: 'Environment variable to pass on to jobs (repeatable)',
  }),
};

/** The flags of `serve` for where jobs run. */
const slurmFlags = {
  executor: Flags.option({
    options: ['local', 'slurm'] as const,
    default: 'local',
    summary: 'Where jobs run: on this machine, or on the Slurm cluster it belongs to',
  })(),
  'slurm-partition': Flags.string({
    helpValue: 'NAME',
    summary: "Slurm partition for jobs [default: the cluster's]",
  }),
  'slurm-account': Flags.string({ helpValue: 'NAME', summary: 'Slurm account to charge jobs to' }),
  'slurm-qos': Flags.string({ helpValue: 'NAME', summary: 'Slurm quality of service for jobs' }),
  'slurm-time': Flags.string({
    helpValue: 'TIME',
    summary: "Slurm time limit for jobs, in sbatch's format, such as 4:00:00 or 2-0",
  }),
  'slurm-constraint': Flags.string({
    helpValue: 'FEATURES',
    summary: 'Slurm node features that jobs require',
  }),
  'slurm-arg': repeatable({
    helpValue: 'WORD',
    summary: 'Extra argument for sbatch (repeatable), such as --slurm-arg=--mem=16G',
  }),
};

/** The flags of `serve`. */
export const serveFlags = {
  config: filledPathFlag({
    helpValue: 'FILE',
    summary:
      'YAML file with any of these flags, such as "port: 8000"; flags on the command line take precedence',
  }),
  check: Flags.boolean({
    summary:
      'Check everything the server needs (apps, engine, data directory, address, token, GPUs), report problems, ' +
      'and exit',
  }),
  host: textFlag({ default: defaultHost, helpValue: 'ADDRESS', summary: 'Address to listen on' }),
  port: wholeNumber({
    helpValue: 'N',
    default: defaultPort,
    min: 0,
    max: 65535,
    summary: 'Port to listen on; 0 picks a free one',
  }),
  auth: Flags.option({
    options: ['bearer', 'required', 'off'] as const,
    default: 'bearer',
    summary:
      "Authentication: 'bearer' asks for the token if one is set, 'required' always asks, 'off' lets everybody in",
  })(),
  'token-env': textFlag({
    default: tokenVariable,
    helpValue: 'NAME',
    summary: 'Environment variable with the token',
  }),
  'token-file': filledPathFlag({
    helpValue: 'FILE',
    summary: 'File with the token, readable only by its owner; takes precedence over the environment',
  }),
  tokens: filledPathFlag({
    helpValue: 'FILE',
    summary: "File of named tokens, created by 'token create'; each token sees only its own jobs",
  }),
  'audit-log': filledPathFlag({
    helpValue: 'FILE',
    summary:
      'Append a JSON line to this file for each submission, upload, end of a job, download, kill, removal, ' +
      'refusal, drain and token change',
  }),
  'trusted-proxy': repeatable({
    helpValue: 'ADDRESS',
    summary:
      'Proxy, or network such as 10.0.0.0/8, whose X-Forwarded-For header is trusted (repeatable); a proxy on this ' +
      'machine also needs --proxy-secret-file',
  }),
  'proxy-secret-file': filledPathFlag({
    helpValue: 'FILE',
    summary: 'File with the secret that trusted proxies send in the X-Proxy-Secret header',
  }),
  apps: repeatable({
    helpValue: 'SOURCE',
    summary:
      'App to serve (repeatable): an app directory, a directory of app directories, a JSON file {"apps": [...]}, ' +
      'or an app in a Hugging Face repository, owner/name[@revision]:app',
  }),
  engine: textFlag({
    default: 'konfai-apps',
    helpValue: 'COMMAND',
    summary: 'Program that runs apps without a command of their own',
  }),
  'engine-resident': Flags.boolean({
    default: false,
    summary: 'Keep the engine loaded between jobs, by starting it as COMMAND resident',
  }),
  'resident-idle': durationFlag({
    default: '10m',
    helpValue: 'TIME',
    summary:
      'How long an idle resident app ("resident": true in its app.json) stays loaded; 0 starts it anew for each job',
  }),
  'share-workers': repeatable({
    helpValue: 'APP',
    summary:
      'App whose loaded process runs the jobs of all owners, one after another (repeatable); its app.json needs ' +
      '"shared": true',
  }),
  download: Flags.boolean({
    default: false,
    summary: 'Download repository apps completely, including weights, before listening',
  }),
  'data-dir': filledPathFlag({
    helpValue: 'DIR',
    summary: "Directory for jobs [default: in the user's data directory]",
  }),
  'max-jobs': wholeNumber({
    helpValue: 'N',
    default: 256,
    min: 1,
    summary:
      "Maximum number of active jobs, not counting those that wait because of their owner's limit ('token limit')",
  }),
  'user-max-jobs': wholeNumber({
    helpValue: 'N',
    min: 1,
    summary:
      "Maximum number of jobs that one person runs at once, unless 'token limit' says otherwise; further ones wait",
  }),
  'user-max-kept': sizeFlag({
    helpValue: 'SIZE',
    summary:
      "Maximum size of what one person's jobs and uploads keep on the server, unless 'token limit' says otherwise",
  }),
  'max-file-size': sizeFlag({
    default: '2GiB',
    helpValue: 'SIZE',
    summary: 'Maximum size of a file in an upload; 2G and 2GiB mean 2 x 1024^3 bytes, 2GB means 2 x 1000^3',
  }),
  'max-upload-size': sizeFlag({
    default: '6GiB',
    helpValue: 'SIZE',
    summary: 'Maximum size of an upload, in the same units',
  }),
  'max-dataset-size': sizeFlag({
    helpValue: 'SIZE',
    summary:
      'Maximum size of a fine-tuning data set, both packed and extracted [default: as for any other archive, which ' +
      'may extract to ten times --max-upload-size]',
  }),
  'require-deidentified': Flags.boolean({
    default: false,
    summary:
      'Accept only de-identified scans: refuse submissions that do not claim to be, and DICOM files with ' +
      'identifying attributes',
  }),
  'disk-per-job': sizeFlag({
    helpValue: 'SIZE',
    summary: 'Maximum a job may write before it is stopped [default: a tenth of the disk, at least 10GiB]',
  }),
  grace: wholeNumber({
    helpValue: 'SECONDS',
    default: 120,
    min: 0,
    max: longestDuration,
    summary: 'Seconds that a finished job is kept if it does not ask for longer',
  }),
  'max-keep': durationFlag({
    default: '7d',
    helpValue: 'TIME',
    summary: 'Longest time that a job may ask to be kept after it ends, such as 90s, 12h or 7d',
  }),
  'keep-uploads': durationFlag({
    default: '1d',
    helpValue: 'TIME',
    summary:
      'How long an uploaded file is kept after its last use, so that it need not be sent again; 0 disables ' +
      'uploads, so that files can only be sent in forms',
  }),
  'max-run-time': runTimeFlag({
    helpValue: 'TIME',
    summary: 'Maximum run time of a job, such as 2h, after which it is stopped [default: unlimited]',
  }),
  'max-fine-tune-time': runTimeFlag({
    helpValue: 'TIME',
    summary: 'Maximum run time of a fine-tuning job [default: that of other jobs]',
  }),
  keepalive: wholeNumber({
    helpValue: 'SECONDS',
    default: keepAliveInterval,
    min: 1,
    max: 24 * 3600,
    summary: 'Seconds of silence in a log stream before a keep-alive is sent',
  }),
  'share-gpus': Flags.boolean({
    default: false,
    summary:
      'Let jobs share a GPU as long as the memory that their apps declare ("gpu_memory" in app.json) fits',
  }),
  'gpu-margin': sizeFlag({
    default: '512MiB',
    helpValue: 'SIZE',
    summary:
      'GPU memory to reserve for each job on a shared GPU beyond what its app declares, for the CUDA context',
  }),
  'cpu-slots': wholeNumber({
    helpValue: 'N',
    min: 1,
    summary: 'Number of CPU workers available to CPU jobs [default: all cores]',
  }),
  metrics: Flags.boolean({ summary: 'Serve GET /metrics to admins' }),
  'metrics-port': wholeNumber({
    helpValue: 'N',
    min: 0,
    max: 65535,
    summary: 'Also serve the metrics on a separate port, without a token; 0 picks a free one',
  }),
  'metrics-host': textFlag({
    default: defaultHost,
    helpValue: 'ADDRESS',
    summary: 'Address that --metrics-port listens on',
  }),
  'log-format': Flags.option({
    options: logFormats,
    default: 'text',
    summary: 'Format of the log on stderr: text for people, or one JSON object per line',
  })(),
  'log-level': Flags.option({
    options: logLevels,
    default: 'info',
    summary: "How much to log on stderr; 'info' logs each step of a job and each refusal",
  })(),
  ...slurmFlags,
  ...sandboxFlags,
  'on-end': textFlag({
    helpValue: 'PROGRAM',
    summary: 'Program to run when a job ends; it gets a JSON document about the job on stdin',
  }),
  'on-exit': Flags.option({
    options: ['kill', 'keep'] as const,
    default: 'kill',
    summary: 'What to do with active jobs when the server stops',
  })(),
};

/** The flags as parsed. */
export type ServeFlags = Interfaces.InferredFlags<typeof serveFlags>;
