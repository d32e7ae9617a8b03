import { type Dirent, existsSync, readdirSync, statSync } from 'node:fs';
import { platform } from 'node:os';
import path from 'node:path';
import { oneLine } from '../../contract/index.js';
import { findProgram, orElse } from '../../files/index.js';
import { SetupError } from '../setup-error.js';
import { tryProgram } from './job-mounts.js';
import { systemFiles } from './machine-files.js';
import { passedNames } from './passed-environment.js';
import { programPlaces } from './program-places.js';
import { Sandbox } from './sandbox.js';
import { systemCallFilter } from './system-call-filter.js';
import {
  hiddenPlaces,
  isWithin,
  realPath,
  resolved,
  type SandboxRules,
  type SecretRules,
  type Visible,
} from './visible-files.js';

/** `serve --sandbox`. */
export type SandboxMode = 'auto' | 'bwrap' | 'off';

/** A sandbox, or why there is none. */
export type FoundSandbox =
  | {
      readonly sandbox: Sandbox;
      readonly version: string;
      /** Why the system calls of jobs are not filtered; empty if they are. */
      readonly unfiltered: string;
    }
  | { readonly sandbox: null; readonly problem: string };

async function versionOf(program: string): Promise<string> {
  const stdout = await tryProgram([program, '--version']).then(
    (end) => end.stdout,
    () => '',
  );
  return oneLine(stdout.trim() || 'bwrap');
}

/** @throws SetupError for a path that does not exist, or that would show jobs to each other */
function checkBinds({ binds, dataDirectory }: SandboxRules): void {
  for (const { path: file, isWritable } of binds) {
    const flag = isWritable ? '--bind-rw' : '--bind';
    if (!statSync(file, { throwIfNoEntry: false })) {
      throw new SetupError(`${flag} ${file}: there is no such file or directory`);
    }
    const real = realPath(file);
    if (isWithin(real, dataDirectory) || isWithin(dataDirectory, real)) {
      throw new SetupError(
        `${flag} ${file}: the data directory ${dataDirectory} is there, and no job may see the files of others; name a directory beside it`,
      );
    }
  }
}

/** The likely cause of a failure of bwrap and its remedy, as the end of a sentence; empty if the message gives no hint. */
function causeOf(problem: string): string {
  if (/Function not implemented/.test(problem))
    return (
      '; a filter of system calls forbids what it needs, such as RestrictSUIDSGID=yes in a systemd unit (bubblewrap 0.12 ' +
      'needs openat2): remove that from the unit'
    );
  if (/mount proc/.test(problem))
    return (
      '; something hides parts of /proc, as containers do: start the container with --security-opt unmask=ALL (Podman) or ' +
      '--security-opt systempaths=unconfined (Docker); container.md also says what to do with GPUs and on Kubernetes'
    );
  if (/namespace|uid map|Operation not permitted|Permission denied/.test(problem))
    return (
      '; this user may not make namespaces: on Ubuntu 24.04 install the AppArmor profile for bwrap that admin.md shows, ' +
      'start a container of Docker with --security-opt seccomp=unconfined --security-opt systempaths=unconfined (container.md), ' +
      'elsewhere look at kernel.unprivileged_userns_clone and user.max_user_namespaces (sysctl)'
    );
  return '';
}

async function find(rules: SandboxRules): Promise<FoundSandbox> {
  if (platform() !== 'linux') return { sandbox: null, problem: 'bubblewrap needs Linux' };
  const program = findProgram('bwrap', rules.environment.PATH ?? '');
  if (program === undefined) {
    return {
      sandbox: null,
      problem: 'bwrap is not installed (Debian and Ubuntu: apt-get install bubblewrap)',
    };
  }
  const filter = systemCallFilter(process.arch);
  const sandbox = new Sandbox(program, rules, filter);
  const [problem, version] = await Promise.all([sandbox.problem(), versionOf(program)]);
  if (problem === null) {
    const unfiltered = filter ? '' : `there is no filter of system calls for ${process.arch}`;
    return { sandbox, version, unfiltered };
  }
  // The kernel may not support seccomp filters.
  const simpler = new Sandbox(program, rules, undefined);
  if (filter === undefined || (await simpler.problem()) !== null) {
    return { sandbox: null, problem: `bwrap does not work here (${problem})${causeOf(problem)}` };
  }
  const unfiltered = `system calls cannot be filtered here (${problem})`;
  return { sandbox: simpler, version, unfiltered };
}

/**
 * Checks whether jobs can have a sandbox here, by starting one.
 * @throws SetupError if `--sandbox bwrap` was given and bwrap does not work
 */
export async function findSandbox(mode: SandboxMode, rules: SandboxRules): Promise<FoundSandbox> {
  if (mode === 'off') return { sandbox: null, problem: '' };
  checkBinds(rules);
  const found = await find(rules);
  if (mode === 'bwrap' && found.sandbox === null) {
    throw new SetupError(`--sandbox bwrap: ${found.problem}`);
  }
  return found;
}

/** The part of the settings that sandboxes need. */
export const sandboxRules = ({
  binds,
  dataDirectory,
  secretFiles,
  environment,
}: SandboxRules): SandboxRules => ({
  binds,
  dataDirectory: resolved(dataDirectory),
  secretFiles,
  environment,
});

/** Maximum number of links of an app that are listed, and how deep they are searched for. */
const maxLinks = 5;
const maxDepth = 3;

interface BlindSpotsOptions {
  /** The server's environment. */
  readonly environment: NodeJS.ProcessEnv;
  readonly binds: readonly Visible[];
  /** Names of variables from `serve --pass-env`. */
  readonly added: readonly string[];
  /** Directories of apps, with the programs that run them. */
  readonly apps: readonly { readonly directory: string; readonly program: string }[];
  readonly secrets: SecretRules;
}

const entriesOf = (directory: string): Dirent[] =>
  orElse(() => readdirSync(directory, { withFileTypes: true }), []);

/** The links in a directory and below. */
function linksIn(directory: string, levels = maxDepth): string[] {
  return entriesOf(directory).flatMap((entry) => {
    const file = path.join(directory, entry.name);
    if (entry.isSymbolicLink()) return [file];
    return entry.isDirectory() && entry.name !== 'node_modules' && levels > 1
      ? linksIn(file, levels - 1)
      : [];
  });
}

/**
 * Sentences about files that a job may need but cannot see in its sandbox: those that variables name, such as a model cache in
 * a home directory, and the targets of links in an app, such as its weights.
 */
export function blindSpots({ environment, binds, added, apps, secrets }: BlindSpotsOptions): string[] {
  const bound = binds.map((each) => realPath(each.path));
  /** Creates a test for whether a file is invisible to a job that also sees these places. */
  const unseenBeside = (also: readonly string[]) => {
    const named = [...bound, ...also];
    const shown = [...systemFiles().directories, ...named];
    const hidden = hiddenPlaces(secrets, shown);
    return (file: string): boolean => {
      const real = realPath(file);
      const isIn = (each: string) => isWithin(each, real);
      return existsSync(real) && (!shown.some(isIn) || hidden.some(isIn));
    };
  };
  const isUnseen = unseenBeside([]);
  const variables = passedNames(environment, { isSandboxed: true, network: true, added }).flatMap((name) => {
    const value = environment[name] ?? '';
    return path.isAbsolute(value) && isUnseen(value) ? [`${name}=${value}`] : [];
  });
  const links = apps.flatMap(({ directory, program }) =>
    linksIn(directory)
      .filter(unseenBeside([directory, ...programPlaces(program, environment.PATH ?? '')].map(realPath)))
      .slice(0, maxLinks)
      .map((link) => `${link} leads to ${realPath(link)}`),
  );
  return [...variables, ...links];
}
