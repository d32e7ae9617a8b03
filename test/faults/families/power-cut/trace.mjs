/**
 * What a traced program, and those that it started, asked of the file system and wrote to sockets, in order.
 * strace is told to print every text in hexadecimal (`-xx`) and the path behind every descriptor (`-y`).
 */
import { readFileSync } from 'node:fs';

const calls = [
  ...['open', 'openat', 'creat', 'write', 'pwrite64', 'writev', 'pwritev', 'truncate', 'ftruncate'],
  ...['rename', 'renameat', 'renameat2', 'link', 'linkat', 'unlink', 'unlinkat', 'mkdir', 'mkdirat', 'rmdir'],
  ...['symlink', 'symlinkat', 'fsync', 'fdatasync', 'sync', 'syncfs', 'copy_file_range', 'sendmsg', 'sendto'],
  ...['clone', 'clone3', 'fork', 'vfork'],
];

/** Words to put before a command. With `-D` the process that is started is the command itself, not strace. */
export const tracer = (file) => [
  ...['strace', '-D', '-f', '--seccomp-bpf', '-y', '-xx', '-s', '4194304', '-o', file],
  ...['-e', `trace=${calls.join(',')}`],
];

const bytesOf = (hex) => Buffer.from(hex.replaceAll('\\x', ''), 'hex');
const textOf = (hex) => bytesOf(hex).toString();

/** Joins a call that was interrupted by another one's line with its end. */
function* wholeLines(file) {
  const begun = new Map();
  for (const line of readFileSync(file, 'latin1').split('\n')) {
    const [, task, rest] = /^(\d+) +(.*)$/.exec(line) ?? [];
    if (rest === undefined) continue;
    if (rest.endsWith(' <unfinished ...>')) {
      begun.set(task, rest.slice(0, -' <unfinished ...>'.length));
      continue;
    }
    const end = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)?.[1];
    if (end === undefined) yield { task, text: rest };
    else yield { task, text: (begun.get(task) ?? '') + end };
  }
}

const argument = /(AT_FDCWD|-?\d+)<((?:\\x..)*)>(\(deleted\))?|"((?:\\x..)*)"|([A-Z][A-Z_|]+)|(-?\d+)/g;

function argumentsOf(text) {
  return [...text.matchAll(argument)].map(([, fd, path, deleted, string, flags, number]) => {
    if (fd !== undefined) return { fd, path: textOf(path), isDeleted: deleted !== undefined };
    if (string !== undefined) return { bytes: bytesOf(string) };
    return flags === undefined ? { number: Number(number) } : { flags };
  });
}

/** Follows `/proc/self/fd/N`, through which a program names what lies in a directory that it has opened. */
class Descriptors {
  #groups = new Map();
  #paths = new Map();

  group(task) {
    return this.#groups.get(task) ?? task;
  }

  cloned(task, child, text) {
    if (text.includes('CLONE_THREAD')) this.#groups.set(child, this.group(task));
  }

  opened(task, fd, path) {
    this.#paths.set(`${this.group(task)}:${fd}`, path);
  }

  resolve(task, path) {
    return path.replace(
      /^\/proc\/self\/fd\/(\d+)/,
      (whole, fd) => this.#paths.get(`${this.group(task)}:${fd}`) ?? whole,
    );
  }
}

/** Paths of a call: a text alone, or a text below the directory that a descriptor stands for. */
function pathsOf(given, resolve) {
  const paths = [];
  let directory = null;
  for (const each of given) {
    if (each.path !== undefined) directory = each.path;
    if (each.bytes === undefined) continue;
    const name = each.bytes.toString();
    paths.push(resolve(name.startsWith('/') || directory === null ? name : `${directory}/${name}`));
  }
  return paths;
}

/** The calls that succeeded: name, process, args, paths, result (a number) and, of an opening, the opened path. */
function* callsIn(file) {
  const descriptors = new Descriptors();
  for (const { task, text } of wholeLines(file)) {
    const [, name, given, outcome] = /^(\w+)\((.*)\) += (.*)$/.exec(text) ?? [];
    if (name === undefined || outcome.startsWith('-') || outcome.startsWith('?')) continue;
    const result = Number(/^\d+/.exec(outcome)?.[0] ?? 0);
    if (/^(clone|clone3|fork|vfork)$/.test(name)) {
      descriptors.cloned(task, String(result), given);
      continue;
    }
    const args = argumentsOf(given);
    const opened = /^\d+<((?:\\x..)*)>/.exec(outcome)?.[1];
    if (opened !== undefined) descriptors.opened(task, result, textOf(opened));
    const paths = pathsOf(args, (path) => descriptors.resolve(task, path));
    yield {
      name,
      process: descriptors.group(task),
      given,
      args,
      paths,
      result,
      opened: opened && textOf(opened),
    };
  }
}

/**
 * The calls of a trace that may have changed what lies below a directory, or told somebody something.
 * @param told paths of descriptors through which it is told
 */
export function callsOn(base, file, told) {
  const isOurs = ({ args, paths, opened }) =>
    [opened, ...paths, ...args.map(({ path }) => path)].some(
      (path) => path?.startsWith(base) || told.test(path ?? ''),
    );
  return [...callsIn(file)].filter((call) => isOurs(call) || /^sync/.test(call.name));
}
