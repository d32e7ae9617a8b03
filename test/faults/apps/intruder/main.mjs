/**
 * Tries to get out of its job, by the plan in its input file: `deed`, and what the deed needs. Each deed is bounded. It acts on
 * the processes (`pids`) and directories (`directories`) that the plan names, and on nothing else of the machine.
 */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { connect } from 'node:net';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

/** Stays loaded, and attacks in a process of its own for each job: in the sandbox of the worker. */
async function stayLoaded() {
  const answers = openSync(process.env.REMOTE_APP_ANSWERS, 'w');
  closeSync(Number(path.basename(process.env.REMOTE_APP_ANSWERS)));
  const answer = (line) => writeSync(answers, `${JSON.stringify(line)}\n`);
  answer({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const { job, arguments: words, directory, environment } = JSON.parse(line);
    const env = { ...process.env, ...environment };
    const stdio = ['ignore', 'inherit', 'inherit'];
    const attack = spawn(process.execPath, [process.argv[1], ...words], { cwd: directory, env, stdio });
    const [code] = await once(attack, 'exit');
    answer({ job, exit_code: code ?? 1 });
  }
  process.exit();
}

if (process.argv[2] === 'resident') await stayLoaded();

const words = process.argv.slice(2);
const after = (flag) => words[words.indexOf(flag) + 1];
const plan = JSON.parse(readFileSync(after('--inputs'), 'utf8'));
const output = after('--output');
const job = path.dirname(output);

/** Does something that may fail; nothing then. */
function attempt(action) {
  try {
    return action();
  } catch {
    return undefined;
  }
}

const list = (directory) => attempt(() => readdirSync(directory)) ?? [];
const numbers = () => list('/proc').filter((name) => /^\d+$/.test(name));

if (!Array.isArray(plan.pids) || !Array.isArray(plan.directories)) {
  console.error('refused: the plan names no processes and directories that may be attacked');
  process.exit(2);
}
const isNamed = (directory) =>
  plan.directories.some((each) => directory === each || directory.startsWith(`${each}/`));
if (!isNamed(job)) {
  console.error('refused: the plan does not name the directory of this job');
  process.exit(2);
}
/** Whether its first process is the bwrap of this job, or of its worker: then all processes that it sees are theirs. */
const isAlone = () => {
  const [program = '', ...more] = (attempt(() => readFileSync('/proc/1/cmdline', 'utf8')) ?? '').split('\0');
  return path.basename(program) === 'bwrap' && (more.includes(output) || more.includes(path.dirname(job)));
};
/** The processes that it may attack. */
const targets = () => (isAlone() ? numbers() : plan.pids.map(String));

const under = (directory, depth = 4) =>
  depth === 0
    ? []
    : list(directory).flatMap((name) => {
        const file = path.join(directory, name);
        return [file, ...under(file, depth - 1)];
      });

/** Numbers of the calls for keys. */
const [addKey, keyctl] = process.arch === 'arm64' ? [217, 219] : [248, 250];

/** Where the files of other jobs may be found. */
const ways = {
  'by their path': () => under(path.dirname(job)),
  'through the roots of other processes': () =>
    targets().flatMap((pid) => under(`/proc/${pid}/root${path.dirname(job)}`)),
  'by a path given to it': () => plan.files,
};

const patience = 20_000;

/** Waits until it is so, within bounds: a machine under fire is slow. */
async function soon(isSo) {
  for (const end = Date.now() + patience; !isSo() && Date.now() < end; ) await delay(50);
}

/** A sleep that is told from all others by its length. */
const sleeper = () => ['sleep', String(plan.marker)];
const isSleeper = (pid) =>
  attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'latin1')) === `${sleeper().join('\0')}\0`;
const tricks = {
  session: (command) => ['setsid', ...command],
  fork: (command) => ['sh', '-c', '("$@" &)', 'sh', ...command],
  environment: (command) => ['env', '-i', 'PATH=/usr/bin:/bin', ...command],
  pipes: (command) => ['sh', '-c', 'exec "$@" >/dev/null 2>&1 </dev/null', 'sh', ...command],
  signals: (command) => ['sh', '-c', 'trap "" TERM INT HUP; "$@"', 'sh', ...command],
  place: (command) => ['sh', '-c', 'cd /; exec "$@"', 'sh', ...command],
};

const deeds = {
  /** Prints what other jobs' files hold that looks like a secret. */
  read: () => {
    for (const file of ways[plan.way]()) {
      const text = attempt(() => readFileSync(file, 'latin1')) ?? '';
      for (const found of text.match(/secret-\w+/g) ?? []) console.log(found);
    }
  },
  /** Puts a file of another job into its own result. */
  take: () => {
    const own = path.join(output, 'taken');
    attempt(() => (plan.isHard ? linkSync(plan.file, own) : symlinkSync(plan.file, own)));
  },
  /** Writes what the runner and the server write. */
  forge: () => {
    for (const name of ['exit.json', 'runner.json', 'job.json', 'run.json', 'log', 'exit.json.reserved']) {
      const file = path.join(job, name);
      attempt(() => writeFileSync(file, plan.content));
      attempt(() => writeFileSync(`${file}.new`, plan.content));
      attempt(() => renameSync(`${file}.new`, file));
      for (const pid of targets()) {
        attempt(() => {
          const cwd = `/proc/${pid}/cwd`;
          if (isNamed(readlinkSync(cwd))) writeFileSync(`${cwd}/${name}`, plan.content);
        });
      }
    }
    attempt(() => renameSync(output, `${output}.moved`));
    attempt(() => rmSync(path.join(job, 'Input'), { recursive: true }));
    process.exitCode = 9;
  },
  /** Prints lines as if the service had. */
  pretend: () => {
    for (const start of ['', '\u001b[32m', '\u200b', '\r', '\0'])
      console.log(`${start}[remote-app] ${plan.content}`);
  },
  /** Leaves a process behind, by these tricks one inside the other. */
  hide: async () => {
    const command = plan.tricks.reduce((inner, trick) => tricks[trick](inner), sleeper());
    spawn(command[0], command.slice(1), { stdio: 'inherit', detached: true }).unref();
    await soon(() => numbers().some((pid) => isSleeper(pid)));
    console.log('hidden');
    if (plan.stays) await delay(600_000);
  },
  /** Says hello to whoever listens there. */
  connect: async () => {
    for (const target of plan.targets) {
      const socket = connect(target);
      socket.on('error', () => {});
      socket.on('connect', () => socket.write('GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n'));
      socket.on('data', (data) => {
        console.log(`answered ${String(data).slice(0, 12)}`);
        socket.destroy();
      });
      await Promise.race([once(socket, 'close'), delay(patience)]);
      socket.destroy();
    }
  },
  /** Reads every GPU's device. */
  gpus: () => {
    for (const name of list('/dev').filter((each) => /^nvidia\d/.test(each))) {
      console.log(attempt(() => readFileSync(`/dev/${name}`, 'latin1')) ?? '');
    }
  },
  litter: () => {
    for (const file of plan.files) attempt(() => writeFileSync(file, 'x'.repeat(1 << 20), { flag: 'wx' }));
  },
  /** Leaves a key of the kernel with the secret, for everybody of this user and for a minute, or reads the one with this id. */
  key: () => {
    const leave = `my ($type, $name, $text) = qw(user ${plan.secret} ${plan.secret});
      my $id = syscall(${addKey}, $type, $name, $text, length $text, -4);
      syscall(${keyctl}, 5, $id, 0x3f3f0000); syscall(${keyctl}, 15, $id, 60); print "key $id"`;
    const read = `my $text = " " x 100; syscall(${keyctl}, 11, ${plan.id}, $text, 100); print $text`;
    console.log(spawnSync('perl', ['-e', plan.id ? read : leave], { encoding: 'utf8' }).stdout);
  },
  /** Forks until it may not, or has `count` children. */
  fork: async () => {
    const script = `i=0; while [ $i -lt ${plan.count} ]; do sleep ${plan.marker} & i=$((i+1)); done; touch all; wait`;
    const herd = spawn('sh', ['-c', script], { stdio: 'inherit' });
    await soon(() => existsSync('all') || herd.exitCode !== null);
    // Long enough to be seen.
    await delay(2500);
  },
  /** Takes memory in children, that many mebibytes in each. */
  memory: async () => {
    const children = Array.from({ length: plan.children }, () => {
      const program = `x = bytearray(${plan.size} << 20); import time; print('took', flush=True); time.sleep(4); print('held', flush=True)`;
      return once(spawn('python3', ['-c', program], { stdio: 'inherit' }), 'exit');
    });
    await Promise.all(children);
  },
  kill: () => {
    for (const pid of plan.pids) attempt(() => process.kill(pid, 'SIGKILL'));
    for (const pid of targets().map(Number)) {
      if (![process.pid, process.ppid, 1].includes(pid))
        attempt(() => plan.isWild && process.kill(pid, 'SIGSTOP'));
    }
  },
  /** Makes namespaces and mounts of its own, to undo what hides the rest. */
  mount: () => {
    const script = `umount -l ${path.dirname(job)} || mount -t proc proc /proc || mount --bind / /mnt; ls ${path.dirname(job)}`;
    for (const words of [
      ['sh', '-c', script],
      ['unshare', '-Urm', 'sh', '-c', script],
      ['nsenter', '-t', '1', '-m', 'true'],
    ]) {
      const { stdout = '' } = spawnSync(words[0], words.slice(1), { encoding: 'utf8' });
      console.log(stdout);
    }
    attempt(() => execFileSync('true'));
  },
};

console.log(`intruder ${plan.deed}`);
await deeds[plan.deed]();
// What a deed has started does not keep it.
process.exit();
