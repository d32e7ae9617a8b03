import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { UsageError } from '../../client/errors.js';
import { tokenVariable } from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import type { ServerSettings } from '../../server/settings.js';
import type { ServeFlags } from './flags.js';
import { requireSomeToken, serverToken } from './server-token.js';
import { slurmOptions } from './slurm-options.js';
import { duration, jobMemory, runTime, size } from './values.js';

/** Milliseconds; null where the flag is not given. */
const mostTime = (flag: string, text: string | undefined): number | null =>
  text === undefined ? null : runTime(flag, text);

/** @throws UsageError if the flags both open the server to everybody and name who may use it */
function tokensFile({ tokens, auth }: ServeFlags): string | null {
  if (tokens !== undefined && auth === 'off') {
    throw new UsageError(
      '--auth off asks nobody for a token, and --tokens names tokens; leave one of them out',
    );
  }
  return tokens === undefined ? null : path.resolve(tokens);
}

/**
 * A program with its arguments, by spaces; a path that exists is taken whole. A path becomes absolute, since a job has a
 * working directory of its own.
 */
function words(given: string): string[] {
  const command = expandHome(given);
  const [program = '', ...more] = existsSync(command) ? [command] : command.trim().split(/\s+/);
  return [program.includes('/') ? path.resolve(program) : program, ...more];
}

/**
 * Turns the flags of `serve` into settings in base units.
 * @param defaultDirectory where the jobs are kept without `--data-dir`
 * @param root the directory of this package
 * @throws FlagValueError naming the flag
 */
export function serverSettings(
  flags: ServeFlags,
  defaultDirectory: string,
  environment: NodeJS.ProcessEnv,
  root = '.',
): ServerSettings {
  const dataset = flags['max-dataset-size'];
  if (flags.sandbox === 'off' && flags['memory-per-job'] !== undefined) {
    throw new UsageError('--memory-per-job is held by the sandbox of a job: leave it out, or --sandbox off');
  }
  const slurm = slurmOptions(flags);
  const token = serverToken(flags, environment);
  const tokens = tokensFile(flags);
  const maxRunTime = mostTime('max-run-time', flags['max-run-time']);
  requireSomeToken(flags, token !== null || tokens !== null);
  return {
    host: flags.host,
    port: flags.port,
    metricsAt:
      flags['metrics-port'] === undefined
        ? null
        : { host: flags['metrics-host'], port: flags['metrics-port'] },
    token,
    tokensFile: tokens,
    auditLog: flags['audit-log'] === undefined ? null : path.resolve(flags['audit-log']),
    trustedProxies: flags['trusted-proxy'],
    secretFiles: [flags['token-file'], tokens, flags['audit-log']].flatMap((each) =>
      each ? [path.resolve(each)] : [],
    ),
    tokenVariables: [...new Set([tokenVariable, flags['token-env']])],
    apps: flags.apps,
    networkApps: flags.network,
    engine: words(flags.engine),
    residentEngines: flags['engine-resident'] ? path.join(root, 'engines') : null,
    residentIdle: duration('resident-idle', flags['resident-idle']),
    download: flags.download,
    dataDirectory: path.resolve(flags['data-dir'] ?? defaultDirectory),
    maxJobs: flags['max-jobs'],
    diskPerJob: flags['disk-per-job'] === undefined ? null : size('disk-per-job', flags['disk-per-job']),
    maxFileSize: size('max-file-size', flags['max-file-size']),
    maxUploadSize: size('max-upload-size', flags['max-upload-size']),
    maxDatasetSize: dataset === undefined ? null : size('max-dataset-size', dataset),
    grace: flags.grace * 1000,
    maxKeep: duration('max-keep', flags['max-keep']),
    maxRunTime,
    maxFineTuneTime: mostTime('max-fine-tune-time', flags['max-fine-tune-time']) ?? maxRunTime,
    keepAlive: flags.keepalive * 1000,
    spareRunners: flags['spare-runners'] ?? 1,
    cpuSlots: flags['cpu-slots'] ?? availableParallelism(),
    slurm,
    onExit: flags['on-exit'],
    sandbox: flags.sandbox,
    jobLimits: {
      processes: flags['processes-per-job'],
      memory:
        flags['memory-per-job'] === undefined ? null : jobMemory('memory-per-job', flags['memory-per-job']),
    },
    binds: [
      ...flags.bind.map((each) => ({ path: path.resolve(expandHome(each)), isWritable: false })),
      ...flags['bind-rw'].map((each) => ({ path: path.resolve(expandHome(each)), isWritable: true })),
    ],
    passEnvironment: flags['pass-env'],
  };
}
