/** Misbehaves as `--set do=NAME` says. */
import { spawn, spawnSync } from 'node:child_process';
import {
  closeSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readFileSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

const words = process.argv.slice(2);
const after = (flag) => words[words.indexOf(flag) + 1];
const [deed, number] = after('--set').slice('do='.length).split(':');
const print = (bytes) => {
  const all = Buffer.from(bytes);
  for (let at = 0; at < all.length; ) at += writeSync(1, all, at);
};
const shell = (script) => spawn('sh', ['-c', script], { stdio: 'inherit' });
const mebibyte = 2 ** 20;
/** Longer than any run of the harness, so that a leftover process is noticed. */
const forever = 3600;

/**
 * Fills the disk with its output, and again when there is room, as when a file of the service is replaced.
 * @param times how often it is seen full before the error is thrown
 */
async function fill(times) {
  const piece = Buffer.alloc(mebibyte, 7);
  const file = openSync(path.join(after('--output'), 'big'), 'w');
  for (let left = times; ; left -= 1) {
    try {
      for (;;) writeSync(file, piece);
    } catch (cause) {
      if (left <= 1) throw cause;
      await delay(20);
    }
  }
}

const deeds = {
  sleep: () => delay(forever * 1000),
  signal: () => process.kill(process.pid, 'SIGKILL'),
  /** Leaves a child behind in its own process group. */
  fork: () => spawnSync('sh', ['-c', `sleep ${forever} & exit 0`], { stdio: 'inherit' }),
  /** Leaves a process behind in another session. */
  stray: () => spawnSync('sh', ['-c', `(setsid sleep ${forever} &) ; exit 0`], { stdio: 'inherit' }),
  /** Leaves a child behind that can be identified only by its process group. */
  bare: () =>
    spawnSync('sh', ['-c', `env -i sleep ${forever} > /dev/null 2>&1 & exit 0`], { stdio: 'inherit' }),
  /** Continues in a program that has cleared its environment. */
  become: async () => {
    shell(`exec env -i sleep ${forever}`);
    await delay(forever * 1000);
  },
  stubborn: async () => {
    process.on('SIGTERM', () => print('not yet\n'));
    await delay(forever * 1000);
  },
  herd: async () => {
    for (let count = 0; count < 30; count += 1) shell(`trap "" TERM; while :; do sleep ${forever}; done`);
    await delay(forever * 1000);
  },
  stop: () => process.kill(process.pid, 'SIGSTOP'),
  close: async () => {
    closeSync(1);
    closeSync(2);
    await delay(500);
    writeFileSync(path.join(after('--output'), 'answer'), 'went on');
  },
  /** Writes more than a pipe holds, at once, without a line feed. */
  fill: () => print('x'.repeat(5 * mebibyte)),
  gigabyte: () => {
    const lines = Buffer.from(
      'a line of sixty-four bytes, which is printed again and again...\n'.repeat(16384),
    );
    for (let count = 0; count < 1024; count += 1) print(lines);
    print('the last line\n');
  },
  longline: () => {
    for (let count = 0; count < 100; count += 1) print('x'.repeat(mebibyte));
    print('\nthe last line\n');
  },
  /** Ten thousand redraws a second, for two seconds. */
  redraw: async () => {
    for (let count = 0; count < 200; count += 1) {
      print(Array.from({ length: 100 }, (_, at) => `step ${count * 100 + at + 1}\r`).join(''));
      await delay(10);
    }
    print('\nthe last line\n');
  },
  bytes: () =>
    print(
      Buffer.concat([
        Buffer.from([0xff, 0xfe, 0x80, 0x0a, 0xc3]),
        Buffer.from('(\0\x1b[31m\n\xe2\x82\n', 'latin1'),
      ]),
    ),
  /** Fills the disk with its output and ends with the write error. */
  overflow: () => fill(25),
  /** Keeps the disk full until it is killed. */
  overflowAndStay: () => fill(Number.POSITIVE_INFINITY),
  /** A sparse file of 200 GiB: packing it takes an hour. */
  holes: () => {
    const file = openSync(path.join(after('--output'), 'holes'), 'w');
    ftruncateSync(file, 200 * 2 ** 30);
  },
  /** Writes as many empty files as are asked for behind the colon. */
  crumbs: () => {
    for (let count = 0; count < Number(number); count += 1) {
      const folder = path.join(after('--output'), String(count >> 10));
      if ((count & 1023) === 0) mkdirSync(folder);
      writeFileSync(path.join(folder, `a-file-of-a-long-enough-name-${count}.txt`), '');
    }
  },
  /** Prints the bytes of the file that it was given. */
  echo: () => print(readFileSync(after('--inputs'))),
  /** Prints more than any log can hold. */
  chatter: () => {
    for (;;) print('a line of sixty-four bytes, which is printed again and again...\n'.repeat(16384));
  },
  quick: () => print('the last line\n'),
  markers: () =>
    print('__DONE__\n__ERROR__ of the app\ndata: __DONE__\n\n: keepalive\nid: 5\nthe last line\n'),
};

print(`rogue ${deed}\n`);
await deeds[deed]();
// Processes that it has started do not keep it running.
process.exit(0);
