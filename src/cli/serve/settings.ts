import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import type { Config } from '@oclif/core';
import { UsageError } from '../../client/errors.js';
import { quotePath, tokenVariable } from '../../contract/index.js';
import { expandHome } from '../../files/index.js';
import type { ServerSettings } from '../../server/settings.js';
import { checkToken, readNamedFile } from '../command/index.js';
import type { ServeFlags } from './flags.js';
import { usableProcessors } from './processors.js';
import { slurmOptions } from './slurm-options.js';
import { duration, jobMemory, runTime, size } from './values.js';

/**
 * Checks that only this user and root can read a file. A file of root may also be readable by its group, because packages
 * often give a service its secrets that way.
 * @throws UsageError
 */
function checkSecrecy(file: string, what: string): void {
  const { uid, mode } = statSync(file);
  if (uid !== 0 && uid !== process.getuid?.()) {
    throw new UsageError(
      `${what} ${quotePath(file)} belongs to another user, who can change it: give it to the user of the server`,
    );
  }
  // No access for others, and for the group at most reading.
  if ((mode & (uid === 0 ? 0o037 : 0o077)) !== 0) {
    throw new UsageError(
      `${what} ${quotePath(file)} can be read by users other than its owner: run chmod 600 ${quotePath(file)}, and replace what is in it`,
    );
  }
}

/** Advice on making a token, for messages. */
const example = "such as that of 'openssl rand -hex 32'";

/** Reads a token, or another secret that is sent in a header. @throws UsageError */
function secretOf(file: string, what = 'The token file'): string {
  const text = readNamedFile(what, file);
  checkSecrecy(file, what);
  const secret = checkToken(text, file);
  if (secret !== undefined) return secret;
  throw new UsageError(`${what} ${quotePath(file)} is empty: write random text into it, ${example}`);
}

/** @throws UsageError for a token that no request can carry */
function tokenIn(environment: NodeJS.ProcessEnv, variable: string): string | null {
  const text = environment[variable] ?? '';
  if (text === '') return null;
  const token = checkToken(text, variable);
  if (token !== undefined) return token;
  throw new UsageError(`${variable} is blank: set it to a token, ${example}, or unset it`);
}

/**
 * The server's own token, which permits everything. A file takes precedence over the environment.
 * @returns null if there is none
 * @throws UsageError for a file that others can read, and for an invalid token
 */
function serverToken(
  { auth, 'token-file': file, 'token-env': variable }: ServeFlags,
  environment: NodeJS.ProcessEnv,
): string | null {
  if (auth === 'off') return null;
  return file === undefined ? tokenIn(environment, variable) : secretOf(file);
}

/** @throws UsageError if the flags both disable authentication and name tokens */
function tokensFile({ tokens, auth }: ServeFlags): string | null {
  if (tokens !== undefined && auth === 'off') {
    throw new UsageError(
      '--auth off asks nobody for a token, and --tokens names tokens; leave one of them out',
    );
  }
  return tokens === undefined ? null : path.resolve(tokens);
}

/**
 * Splits a program and its arguments at spaces, unless the whole text is an existing path. Paths become absolute, because each
 * job has its own working directory.
 */
function words(given: string): string[] {
  const command = expandHome(given);
  const [program = '', ...more] = existsSync(command) ? [command] : command.trim().split(/\s+/);
  return [program.includes('/') ? path.resolve(program) : program, ...more];
}

/** Converts the value of a flag; null if the flag is not given. */
const ifGiven = <T>(
  flags: ServeFlags,
  name: keyof ServeFlags & string,
  read: (name: string, text: string) => T,
): T | null => (flags[name] === undefined ? null : read(name, String(flags[name])));

/**
 * Converts the flags of `serve` to settings in base units.
 * @param program its version, its directory, and the default data directory
 * @throws FlagValueError naming the flag
 */
export function serverSettings(
  flags: ServeFlags,
  { version, root, dataDir }: Pick<Config, 'version' | 'root' | 'dataDir'>,
  environment: NodeJS.ProcessEnv,
): ServerSettings {
  const { 'proxy-secret-file': secretFile } = flags;
  if (flags.sandbox === 'off' && flags['memory-per-job'] !== undefined) {
    throw new UsageError(
      '--memory-per-job is held by the sandbox of a job: it has no effect with --sandbox off',
    );
  }
  const slurm = slurmOptions(flags);
  const token = serverToken(flags, environment);
  const tokens = tokensFile(flags);
  const maxRunTime = ifGiven(flags, 'max-run-time', runTime);
  if (flags.auth === 'required' && token === null && tokens === null) {
    throw new UsageError(
      `--auth required, and there is no token: name a file with --token-file or --tokens, or set ${flags['token-env']}`,
    );
  }
  return {
    version,
    environment,
    host: flags.host,
    port: flags.port,
    metrics: flags.metrics || flags['metrics-port'] !== undefined,
    metricsAt:
      flags['metrics-port'] === undefined
        ? null
        : { host: flags['metrics-host'], port: flags['metrics-port'] },
    token,
    tokensFile: tokens,
    auditLog: flags['audit-log'] === undefined ? null : path.resolve(flags['audit-log']),
    trustedProxies: flags['trusted-proxy'],
    proxySecret: secretFile === undefined ? null : secretOf(secretFile, 'The proxy secret file'),
    secretFiles: [flags['token-file'], tokens, flags['audit-log'], secretFile].flatMap((each) =>
      each ? [path.resolve(each)] : [],
    ),
    tokenVariables: [...new Set([tokenVariable, flags['token-env']])],
    apps: flags.apps,
    namedApps: { network: flags.network, 'share-workers': flags['share-workers'] },
    engine: words(flags.engine),
    residentEngines: flags['engine-resident'] ? path.join(root, 'engines') : null,
    residentIdle: duration('resident-idle', flags['resident-idle']),
    download: flags.download,
    dataDirectory: path.resolve(flags['data-dir'] ?? path.join(dataDir, 'serve')),
    maxJobs: flags['max-jobs'],
    userLimits: {
      max_jobs: flags['user-max-jobs'] ?? null,
      max_kept: ifGiven(flags, 'user-max-kept', size),
    },
    diskPerJob: ifGiven(flags, 'disk-per-job', size),
    maxFileSize: size('max-file-size', flags['max-file-size']),
    maxUploadSize: size('max-upload-size', flags['max-upload-size']),
    maxDatasetSize: ifGiven(flags, 'max-dataset-size', size),
    requireDeidentified: flags['require-deidentified'],
    grace: flags.grace * 1000,
    maxKeep: duration('max-keep', flags['max-keep']),
    keepUploads: duration('keep-uploads', flags['keep-uploads']),
    maxRunTime,
    maxFineTuneTime: ifGiven(flags, 'max-fine-tune-time', runTime) ?? maxRunTime,
    keepAlive: flags.keepalive * 1000,
    cpuSlots: flags['cpu-slots'] ?? usableProcessors(),
    processors: usableProcessors(),
    gpuMargin: flags['share-gpus'] ? size('gpu-margin', flags['gpu-margin']) : null,
    slurm,
    onExit: flags['on-exit'],
    onEnd: flags['on-end'] === undefined ? null : words(flags['on-end']),
    sandbox: flags.sandbox,
    jobLimits: {
      processes: flags['processes-per-job'],
      memory: ifGiven(flags, 'memory-per-job', jobMemory),
    },
    binds: [
      ...flags.bind.map((each) => ({ path: path.resolve(expandHome(each)), isWritable: false })),
      ...flags['bind-rw'].map((each) => ({ path: path.resolve(expandHome(each)), isWritable: true })),
    ],
    passEnvironment: flags['pass-env'],
  };
}
