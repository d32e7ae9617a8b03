import { createServer } from 'node:http';
import path from 'node:path';
import { stateOf, type TokenEntry } from '../access/index.js';
import { counted, excerpt, nearest, operations, quoteName, refusals } from '../contract/index.js';
import { errorCode, messageOf, orElse } from '../files/index.js';
import { readTokenFile } from './access/index.js';
import {
  type AppFindings,
  checkNamedApps,
  lookAtApps,
  pythonWithoutCuda,
  readSources,
  residentEngine,
  runHere,
  sourceProblems,
  staysLoaded,
  type Trial,
  type TrialEnd,
  type TrialJob,
  trialRun,
  uniqueApps,
  viewAppDirectory,
} from './apps/index.js';
import { lookAtAuditLog } from './audit/index.js';
import { DirectoryInUse, lookAtDataDirectory } from './data-directory/index.js';
import { failureInWords, inventory } from './devices/index.js';
import { lookAtSlurm } from './executors/slurm/index.js';
import { checkPorts, isOwnProxy, listen, proxyList } from './http/index.js';
import { checkOnEnd } from './on-end.js';
import { checkSecrets, findSandbox, passedNames, sandboxRules } from './sandbox/index.js';
import type { ServerSettings } from './settings.js';
import { SetupError } from './setup-error.js';
import { GpuTrial } from './try-on-gpus.js';

/** What a check found about one thing that a server needs. `note`: worth knowing, but the server can start. */
export interface Finding extends Trial {
  readonly about: string;
}

/** A finding of a check; without `about` it is about what the check is for. */
type Found = Trial & Partial<Finding>;

/** What was found about one app. */
function* findingsOf({ id, problems, warnings, missing }: AppFindings, argument: string): Generator<Finding> {
  const about = `app ${id}`;
  const wrong = [...problems, ...warnings];
  if (wrong.length + missing.length === 0) yield { kind: 'ok', about, says: argument };
  for (const says of wrong) yield { kind: 'problem', about, says };
  for (const says of missing) yield { kind: 'note', about, says };
}

async function* checkApps({
  apps: sources,
  engine,
  namedApps,
  environment,
}: ServerSettings): AsyncGenerator<Found> {
  const read = readSources(sources);
  for (const says of read.flatMap(sourceProblems)) yield { kind: 'problem', says };
  const byId = uniqueApps(read);
  checkNamedApps(namedApps, byId);
  const allowed = [...byId.values()];
  if (allowed.length === 0) yield { kind: 'note', says: 'no app is configured: add one with --apps' };
  const { apps, engineProblem } = await lookAtApps(allowed, engine, environment, 'python');
  for (const found of apps) yield* findingsOf(found, byId.get(found.id)?.argument ?? '');
  if (engineProblem !== null) yield { kind: 'problem', about: 'engine', says: engineProblem };
  else if (apps.some(({ isOfEngine }) => isOfEngine))
    yield { kind: 'ok', about: 'engine', says: engine.join(' ') };
}

async function* checkResidentEngine({
  engine,
  residentEngines,
  environment,
}: ServerSettings): AsyncGenerator<Found> {
  if (residentEngines === null) return;
  const loader = residentEngine(engine, environment.PATH ?? '', residentEngines);
  yield { kind: 'ok', says: loader.join(' ') };
}

/** Changes nothing: a missing directory is not created. */
async function* checkDataDirectory({ dataDirectory }: ServerSettings): AsyncGenerator<Found> {
  try {
    const isThere = lookAtDataDirectory(dataDirectory);
    yield {
      kind: 'ok',
      says: isThere ? dataDirectory : `${dataDirectory}, which will be created at the start`,
    };
  } catch (cause) {
    // The server with these settings may already be running.
    if (!(cause instanceof DirectoryInUse)) throw cause;
    yield { kind: 'note', says: cause.message };
  }
}

async function* checkAddress({ host, port, metricsAt }: ServerSettings): AsyncGenerator<Found> {
  checkPorts({ host, port }, metricsAt);
  for (const address of [{ host, port }, ...(metricsAt ? [metricsAt] : [])]) {
    const server = createServer();
    try {
      const url = await listen(server, address.host, address.port);
      yield { kind: 'ok', says: address.port === 0 ? `${address.host}, any free port` : url };
    } catch (cause) {
      // The server with these settings may already be running.
      const isTaken = cause instanceof SetupError && errorCode(cause.cause) === 'EADDRINUSE';
      yield { kind: isTaken ? 'note' : 'problem', says: messageOf(cause) };
    } finally {
      server.close();
    }
  }
}

async function* checkProxies({ trustedProxies, proxySecret }: ServerSettings): AsyncGenerator<Found> {
  if (trustedProxies.length === 0) return;
  proxyList(trustedProxies);
  if (proxySecret === null && isOwnProxy(trustedProxies)) {
    const says = `${trustedProxies.join(', ')}: it is on this machine, and is ignored without --proxy-secret-file`;
    yield { kind: 'problem', says };
  } else yield { kind: 'ok', says: trustedProxies.join(', ') };
}

/** Checks the program without running it. */
async function* checkEndProgram({ onEnd, environment }: ServerSettings): AsyncGenerator<Found> {
  if (onEnd === null) return;
  checkOnEnd(onEnd, environment.PATH ?? '');
  yield { kind: 'ok', says: onEnd.join(' ') };
}

/** Checks the audit log without creating it. */
async function* checkAuditLog({ auditLog }: ServerSettings): AsyncGenerator<Found> {
  if (auditLog === null) return;
  lookAtAuditLog(auditLog);
  yield { kind: 'ok', says: auditLog };
}

async function* checkClaims({ requireDeidentified }: ServerSettings): AsyncGenerator<Found> {
  if (!requireDeidentified) return;
  yield { kind: 'ok', says: 'only those that are de-identified' };
}

/** An app that a token names but the server does not have is most often misspelt, and unknown to everybody who uses the token. */
function* checkAppsOf({ name, apps = [] }: TokenEntry, known: readonly string[]): Generator<Finding> {
  for (const id of apps.filter((each) => !known.includes(each))) {
    const near = nearest(id, known);
    const remedy =
      near === null ? `it has: ${excerpt(known.join(', ') || 'none')}` : `did you mean ${quoteName(near)}?`;
    const says = `the server has no app ${quoteName(id)}; ${remedy} ('remote-app token limit ${name} --apps ...' changes what the token has)`;
    yield { kind: 'note', about: `token ${name}`, says };
  }
}

async function* checkToken({ token, tokensFile, host, apps }: ServerSettings): AsyncGenerator<Found> {
  if (tokensFile !== null) {
    const { tokens: entries } = readTokenFile(tokensFile);
    const valid = entries.filter((entry) => stateOf(entry) === 'active');
    yield { kind: 'ok', says: `${counted(valid.length, 'valid named token')} in ${tokensFile}` };
    const known = allowedApps(apps);
    if (known) for (const entry of valid) yield* checkAppsOf(entry, [...known.keys()]);
  }
  if (token !== null) yield { kind: 'ok', says: 'the admin token is set' };
  else if (tokensFile === null)
    yield { kind: 'note', says: `there is none: every endpoint is open to whoever reaches ${host}` };
}

async function* checkGpus({ slurm, environment }: ServerSettings): AsyncGenerator<Found> {
  if (slurm) return;
  const oddities: string[] = [];
  const gpus = inventory(environment, (oddity) => oddities.push(oddity));
  try {
    await gpus.start();
    if (gpus.current === null) yield { kind: 'problem', says: gpus.problem };
    else yield { kind: 'ok', says: gpus.inWords || `none (${gpus.whyNone}): jobs run on the CPU` };
    for (const oddity of oddities)
      yield { kind: 'note', says: `something is odd about nvidia-smi: ${oddity}` };
    for (const gpu of gpus.failed) yield { kind: 'note', says: failureInWords(gpu) };
  } finally {
    gpus.close();
  }
}

async function* checkCluster({ slurm, tokenVariables, environment }: ServerSettings): AsyncGenerator<Found> {
  if (!slurm) return;
  const own = Object.entries(environment).filter(([name]) => !tokenVariables.includes(name));
  const { version, size, problem } = await lookAtSlurm(slurm, Object.fromEntries(own));
  const found = `${version}: ${counted(size?.nodes ?? 0, 'node')}, ${counted(size?.gpus ?? 0, 'GPU')}`;
  if (problem === null) yield { kind: 'ok', says: found };
  else yield { kind: 'problem', says: `${version} does not take jobs: ${problem}` };
}

/** The allowed apps, by id; null if the allowlist is wrong, which the check of the apps reports. */
const allowedApps = (sources: readonly string[]): ReturnType<typeof uniqueApps> | null =>
  orElse(() => uniqueApps(readSources(sources)), null);

/** The directories of the allowed apps. */
const appDirectories = (sources: readonly string[]): string[] =>
  [...(allowedApps(sources)?.values() ?? [])].flatMap(({ directory }) => directory ?? []);

async function* checkSandbox(settings: ServerSettings): AsyncGenerator<Found> {
  if (settings.slurm) {
    yield { kind: 'note', says: 'off: jobs on Slurm run without a sandbox' };
    return;
  }
  const rules = sandboxRules(settings);
  const found = await findSandbox(settings.sandbox, rules);
  if (found.sandbox) {
    checkSecrets(rules, appDirectories(settings.apps), settings.engine);
    yield { kind: 'ok', says: found.version };
    if (found.unfiltered !== '') yield { kind: 'note', says: found.unfiltered };
    const stayLoaded = settings.residentIdle > 0 && hasResident(settings);
    const problem = stayLoaded && (await found.sandbox.jobMountsProblem());
    const reloaded = `resident apps are started anew for each job: ${problem}`;
    if (problem) yield { kind: 'problem', says: reloaded };
  } else if (settings.sandbox === 'off') yield { kind: 'note', says: 'off: jobs see what this user sees' };
  else yield { kind: 'problem', says: `jobs would run without one: ${found.problem}` };
}

/** Whether any app stays loaded between its jobs. */
const hasResident = ({ apps, residentEngines }: ServerSettings): boolean =>
  residentEngines !== null || appDirectories(apps).some(staysLoaded);

/** Reports that the check runs as root: root can read files that a service's user cannot, so it finds fewer problems. */
async function* checkUser(): AsyncGenerator<Found> {
  if (process.geteuid?.() !== 0) return;
  const says =
    'root, who may read and write everything; if the server runs as another user, check as that user';
  yield { kind: 'note', says };
}

/** The environment of a job without a sandbox. */
const jobEnvironment = (environment: NodeJS.ProcessEnv) =>
  Object.fromEntries(
    passedNames(environment, { isSandboxed: false, network: true, added: [] }).map((name) => [
      name,
      environment[name],
    ]),
  );

/** Runs an app of this machine once, if that is possible. */
async function tryApp(
  { id, command }: AppFindings,
  directory: string,
  run: (job: TrialJob) => Promise<TrialEnd>,
  scan: string | undefined,
): Promise<Trial> {
  const app = viewAppDirectory(id, directory);
  if (!app.available || command === null) {
    const says = 'it has no command of its own: the engine of a server runs it, and it was not tried';
    return { kind: 'note', says };
  }
  if (refusals(app, operations.infer, {}, null).length > 0)
    return { kind: 'note', says: 'it declares no inference, so it was not tried' };
  return trialRun(app, directory, command, run, scan);
}

/**
 * The resources that trials used, in the form of `resources` in an app.json: sizes are increased by a tenth and rounded up to
 * whole gibibytes.
 */
function* measured(ends: GpuTrial['succeeded']): Generator<Finding> {
  const most = (of: (end: GpuTrial['succeeded'][number]) => number | null | undefined) =>
    Math.max(0, ...ends.map((end) => of(end) ?? 0));
  const size = (bytes: number) => bytes > 0 && `${Math.ceil((bytes * 1.1) / 1024 ** 3)}GiB`;
  const resources = {
    gpu_memory: size(most((end) => end.peakGpuMemory)),
    memory: size(most((end) => end.peakMemory)),
    cpus: most(({ cpuSeconds, seconds }) =>
      cpuSeconds === null ? 0 : Math.max(1, Math.round(cpuSeconds / seconds)),
    ),
  };
  const entries = Object.entries(resources).flatMap(([name, value]) =>
    value ? `"${name}": ${JSON.stringify(value)}` : [],
  );
  if (entries.length === 0) return;
  const about = 'resources';
  yield { kind: 'ok', about, says: `"resources": { ${entries.join(', ')} }` };
  const says =
    "measured on one volume, and a larger one needs more: choose it with --scan; 'remote-app apps APP' shows what jobs used on a server";
  yield { kind: 'note', about, says };
}

/** Runs an app in the sandbox, once on each GPU, or on the CPU if there is none. */
async function* tryOnGpus(
  found: AppFindings,
  directory: string,
  seconds: number,
  { isMeasured, scan }: AppTrial,
  environment: NodeJS.ProcessEnv,
): AsyncGenerator<Finding> {
  const trial = await GpuTrial.open(environment);
  try {
    const { gpus, found: sandbox } = trial;
    if (sandbox.sandbox) yield { kind: 'ok', about: 'sandbox', says: sandbox.version };
    else yield { kind: 'problem', about: 'sandbox', says: `jobs would run without one: ${sandbox.problem}` };
    if (gpus.current === null) yield { kind: 'problem', about: 'GPUs', says: gpus.problem };
    for (const gpu of gpus.failed) yield { kind: 'problem', about: 'GPUs', says: failureInWords(gpu) };
    const ids = (gpus.current ?? []).map(({ id }) => id);
    const onCpu = { about: 'trial run on the CPU', devices: { kind: 'cpu', workers: 1 } } as const;
    const onGpus = ids.map((id) => ({
      about: `trial run on GPU ${id}`,
      devices: { kind: 'gpus', ids: [id] } as const,
    }));
    for (const { about, devices } of onGpus.length > 0 ? onGpus : [onCpu])
      yield {
        about,
        ...(await tryApp(found, directory, (job) => trial.run(job, devices, directory, seconds), scan)),
      };
    if (isMeasured) yield* measured(trial.succeeded);
  } finally {
    trial.close();
  }
}

/** Reports a PyTorch without CUDA on a machine that has GPUs. */
async function* checkCuda(
  { id, command }: AppFindings,
  directory: string,
  environment: NodeJS.ProcessEnv,
): AsyncGenerator<Finding> {
  const python = command && (await pythonWithoutCuda(directory, command, environment.PATH ?? ''));
  if (!python) return;
  const gpus = inventory(environment, () => {});
  try {
    await gpus.start();
    if (!gpus.inWords) return;
    const says = `${python} has a PyTorch without CUDA, which cannot use the GPUs of this machine (${gpus.inWords}); run '${python} -m pip install --force-reinstall torch'`;
    yield { kind: 'problem', about: `app ${id}`, says };
  } finally {
    gpus.close();
  }
}

/** How to try an app. */
interface AppTrial {
  /** Time limit for a run, in seconds; null for no run. */
  readonly seconds: number | null;
  /** Whether to run jobs in the sandbox, one on each GPU, instead of a single run on the CPU. */
  readonly isInSandbox: boolean;
  /** Whether to report what these jobs used. */
  readonly isMeasured: boolean;
  /** A scan to use as input instead of a tiny volume. */
  readonly scan: string | undefined;
}

/**
 * Checks everything that an app directory needs; meant for its author.
 * @param directory absolute
 * @param environment variables that a server would have
 */
export async function* checkApp(
  directory: string,
  trial: AppTrial,
  environment: NodeJS.ProcessEnv,
): AsyncGenerator<Finding> {
  const { seconds, isInSandbox, scan } = trial;
  const id = path.basename(directory);
  const allowed = { id, directory, repository: null, argument: directory, network: false };
  const { apps } = await lookAtApps([allowed], [], environment, 'own-python');
  for (const found of apps) {
    yield* findingsOf(found, directory);
    if (found.problems.length > 0) continue;
    yield* checkCuda(found, directory, environment);
    if (seconds === null) continue;
    if (isInSandbox) yield* tryOnGpus(found, directory, seconds, trial, environment);
    else {
      const run = runHere(jobEnvironment(environment), seconds);
      yield { about: 'trial run', ...(await tryApp(found, directory, run, scan)) };
    }
  }
}

/** All checks, in the order in which their findings appear. To add a check, add a line here. */
const checks = [
  ['user', checkUser],
  ['apps', checkApps],
  ['resident engine', checkResidentEngine],
  ['data directory', checkDataDirectory],
  ['address', checkAddress],
  ['trusted proxy', checkProxies],
  ['audit log', checkAuditLog],
  ['program for ends', checkEndProgram],
  ['token', checkToken],
  ['submissions', checkClaims],
  ['GPUs', checkGpus],
  ['Slurm', checkCluster],
  ['sandbox', checkSandbox],
] as const;

/** Checks everything that a server with these settings needs. Starts no server and changes nothing. */
export async function* checkServer(settings: ServerSettings): AsyncGenerator<Finding> {
  for (const [about, check] of checks) {
    try {
      for await (const found of check(settings)) yield { about, ...found };
    } catch (cause) {
      if (!(cause instanceof SetupError)) throw cause;
      yield { kind: 'problem', about, says: cause.message };
    }
  }
}
