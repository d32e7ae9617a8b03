import { existsSync, readFileSync, readlinkSync, realpathSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import path from 'node:path';
import { findProgram, orElse, readScriptStart } from '../../files/index.js';

/** Maximum number of links and interpreters that are followed from a program. */
const maxSteps = 16;

/** Whether a directory holds a complete Python environment. */
const isEnvironment = (prefix: string): boolean =>
  existsSync(path.join(prefix, 'pyvenv.cfg')) || existsSync(path.join(prefix, 'conda-meta'));

/** Whether a directory belongs to more than one program: the root and the home directories. */
const isShared = (directory: string): boolean =>
  [path.parse(directory).root, '/tmp', '/root', homedir()].includes(directory) ||
  path.dirname(directory) === '/home';

/** What belongs to a program because of its location: its directory, and the libraries beside a `bin`. */
function around(file: string): string[] {
  const directory = path.dirname(file);
  // The versions that pyenv and similar tools install are beside the scripts that choose among them.
  const root = path.dirname(directory);
  if (path.basename(directory) === 'shims' && !isShared(root)) return [root];
  if (!['bin', 'sbin'].includes(path.basename(directory))) return [isShared(directory) ? file : directory];
  if (isEnvironment(root) && !isShared(root)) return [root];
  return [directory, ...['lib', 'lib64', 'libexec'].map((name) => path.join(root, name))];
}

/** The location of the Python that an environment was created with. */
function basePython(file: string): string[] {
  try {
    const settings = readFileSync(path.join(path.dirname(file), '..', 'pyvenv.cfg'), 'utf8');
    const home = /^home\s*=\s*(\S.*?)\s*$/m.exec(settings)?.[1];
    return home === undefined ? [] : [path.join(home, 'python3')];
  } catch {
    return [];
  }
}

/** The programs that run a script: the one that its first line names, and the one that `env` there looks for. */
function interpreters(file: string, searchPath: string): string[] {
  const [program = '', ...args] = readScriptStart(file).shebang;
  const named = args.find((word) => !word.startsWith('-') && !word.includes('='));
  const found = path.basename(program) === 'env' && named ? findProgram(named, searchPath) : undefined;
  return [program, found ?? ''].filter((each) => path.isAbsolute(each));
}

/** The target of a symbolic link, as it is written; undefined for anything else. */
export const linkText = (file: string): string | undefined => orElse(() => readlinkSync(file), undefined);

/** The path that a symbolic link leads to in one step; undefined for anything else. */
function linkTarget(file: string): string | undefined {
  const target = linkText(file);
  return target === undefined ? undefined : path.resolve(path.dirname(file), target);
}

/**
 * The files and directories that a program needs to start, by the way in which programs are installed: what it is a link
 * to, what runs it if it is a script, the Python environment that it is part of, and the libraries beside its `bin`. Only
 * existing paths, without those that lie inside another one.
 * @param name as it stands on a command line
 * @param searchPath the `PATH` that it is looked for on
 */
export function programPlaces(name: string, searchPath: string): string[] {
  const places = new Set<string>();
  const left = [findProgram(name, searchPath)];
  const seen = new Set<string>();
  while (left.length > 0 && seen.size < maxSteps) {
    const file = left.shift();
    if (file === undefined || seen.has(file)) continue;
    seen.add(file);
    for (const place of around(file)) places.add(place);
    const target = linkTarget(file);
    left.push(...basePython(file), ...(target === undefined ? interpreters(file, searchPath) : [target]));
  }
  const existing = [...places].filter((each) => statSync(each, { throwIfNoEntry: false }) !== undefined);
  return existing.filter((each) => !existing.some((other) => each.startsWith(other + path.sep))).sort();
}

/**
 * Where, besides the directory itself, Node looks for the packages of a program in this directory: `node_modules` of each
 * directory above it, as in a workspace of npm, which keeps the packages of all its members there.
 */
export function packagesAbove(directory: string): string[] {
  const above = path.dirname(directory);
  if (above === directory) return [];
  const packages = path.join(above, 'node_modules');
  return [...(existsSync(packages) ? [packages] : []), ...packagesAbove(above)];
}

/** Names of packages, which cannot lead to anything but a package. */
const packageName = /^(@[\w.-]+\/)?(?!\.)[\w.-]+$/;

/** A `package.json`; empty if it cannot be read. */
function packageOf(directory: string): Readonly<Record<string, unknown>> {
  try {
    const content: unknown = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'));
    return typeof content === 'object' && content !== null ? (content as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** The packages that this one depends on and that are links in one of these `node_modules`, and those that they need in turn. */
function linksOf(directory: string, packages: readonly string[], seen: Set<string>): string[] {
  const names = Object.keys(packageOf(directory).dependencies ?? {}).filter((name) => packageName.test(name));
  return names.flatMap((name) => {
    const linked = packages.map((each) => path.join(each, name)).find((each) => existsSync(each));
    if (linked === undefined || linkText(linked) === undefined) return [];
    const target = realpathSync(linked);
    const content = packageOf(target);
    if (content.name !== name || seen.has(target)) return [];
    seen.add(target);
    const files = Array.isArray(content.files) ? content.files.map(String) : ['.'];
    const installed = ['package.json', ...files].map((each) => path.join(target, each));
    const above = packagesAbove(path.join(target, 'package.json'));
    return [...installed.filter((each) => existsSync(each)), ...above, ...linksOf(target, above, seen)];
  });
}

/**
 * The packages that an app depends on and that are links in a `node_modules` above it, as in a workspace: of each package, what
 * npm would install and the packages that it finds in turn. Links inside the app do not count, because an app must not choose
 * what its jobs see.
 */
export const linkedPackages = (directory: string): string[] =>
  linksOf(directory, packagesAbove(directory), new Set());
