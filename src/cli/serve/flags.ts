import { Flags, type Interfaces } from '@oclif/core';
import {
  defaultHost,
  defaultPort,
  keepAliveInterval,
  longestDuration,
  tokenVariable,
} from '../../contract/index.js';
import { wholeNumber } from '../usage-errors.js';
import { logFormats, logLevels } from './log-flags.js';
import { repeatable } from './repeatable.js';
import { sandboxFlags } from './sandbox-flags.js';
import { slurmFlags } from './slurm-flags.js';
import { durationFlag, filledPathFlag, runTimeFlag, sizeFlag, textFlag } from './values.js';

/** The flags of `serve` (interface.md, Command line). */
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
      'Append a JSON line to this file for each submission, end, download, kill, refusal and change of a token',
  }),
  'trusted-proxy': repeatable({
    helpValue: 'ADDRESS',
    summary: 'Proxy, or network such as 10.0.0.0/8, whose X-Forwarded-For header is trusted; repeatable',
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
  'disk-per-job': sizeFlag({
    helpValue: 'SIZE',
    summary:
      'Most that one job may write; it is ended when it has written more. By default a tenth of what is free at the start, at least 10GiB',
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
  'cpu-slots': wholeNumber({
    helpValue: 'N',
    min: 1,
    summary: 'CPU workers shared by the CPU jobs; by default all cores',
  }),
  'spare-runners': wholeNumber({
    helpValue: 'N',
    min: 0,
    max: 64,
    summary:
      'Processes started in advance, so that jobs start at once, each of up to 45 MiB; 1 by default, 0 for none',
  }),
  'metrics-port': wholeNumber({
    helpValue: 'N',
    min: 0,
    max: 65535,
    summary: 'Also serve GET /metrics on a port of its own, without a token; 0 takes any free one',
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
  'on-exit': Flags.option({
    options: ['kill', 'keep'] as const,
    default: 'kill',
    summary: 'What happens to active jobs when the server stops',
  })(),
};

/** As parsed. */
export type ServeFlags = Interfaces.InferredFlags<typeof serveFlags>;
