import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { systemCallFilter } from '../../../src/server/sandbox/system-call-filter.js';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
import { temporary } from '../../support/temporary.js';
import { localSubject } from '../executors/local-subject.js';
import { Bench, Followed } from '../executors/support.js';
import { answers, attempts } from './attempts.js';

const { ENOSYS, EAFNOSUPPORT } = constants.errno;
const keepsUpper = 0xffff0000;
const refused = 0x00050000;
const allowed = 0x7fff0000;

/** What the kernel would answer by a filter: the number of an error, 0 for a call that is made. */
function judge(filter: Buffer, architecture: number, call: number, argument = 0): number {
  const data = Buffer.alloc(64);
  data.writeUInt32LE(call >>> 0, 0);
  data.writeUInt32LE(architecture, 4);
  data.writeUInt32LE(argument, 16);
  // The kernel takes an int as the family, and looks at no more of it.
  data.writeUInt32LE(7, 20);
  let word = 0;
  for (let at = 0; at < filter.length; at += 8) {
    const code = filter.readUInt16LE(at);
    const value = filter.readUInt32LE(at + 4);
    const skip = (holds: boolean) => {
      at += 8 * filter.readUInt8(at + (holds ? 2 : 3));
    };
    if (code === 0x20) word = data.readUInt32LE(value);
    else if (code === 0x15) skip(word === value);
    else if (code === 0x35) skip(word >= value);
    else if (code !== 0x06) throw new Error(`The instruction ${code} is unknown`);
    else if (value === allowed) return 0;
    else if ((value & keepsUpper) === refused) return value & ~keepsUpper;
    else throw new Error(`The answer ${value} is unknown`);
  }
  throw new Error('The program has no end');
}

describe('the filter of system calls', () => {
  const [unix, internet, vsock] = [1, 2, 40];
  const [x64, i386, arm64, arm] = [0xc000003e, 0x40000003, 0xc00000b7, 0x40000028];

  test.each([
    ['x64', x64, [248, 249, 250], [41, 53]],
    ['x64', i386, [286, 287, 288], [359, 360]],
    ['arm64', arm64, [217, 218, 219], [198, 199]],
    ['arm64', arm, [309, 310, 311], [281, 288]],
  ] as const)('of %s holds for programs of architecture %i', (machine, architecture, keys, sockets) => {
    const filter = systemCallFilter(machine) ?? Buffer.alloc(0);
    const errors = Object.fromEntries(
      Array.from(
        { length: 600 },
        (_, call) => [call, judge(filter, architecture, call, vsock)] as const,
      ).filter(([, error]) => error !== 0),
    );
    const expected = [...keys, 425].map((call) => [call, ENOSYS]);
    const families = [...sockets, ...(architecture === i386 ? [102] : [])].map((call) => [
      call,
      EAFNOSUPPORT,
    ]);
    expect(errors).toEqual(Object.fromEntries([...expected, ...families]));
    for (const call of sockets) {
      for (const family of [unix, internet]) expect(judge(filter, architecture, call, family)).toBe(0);
    }
  });

  test.each([
    ['x32', 'x64', x64, 0x40000000],
    ['another architecture', 'x64', arm64, 0],
    ['another architecture', 'arm64', i386, 0],
  ])('refuses all calls of %s on %s', (_, machine, architecture, first) => {
    const filter = systemCallFilter(machine) ?? Buffer.alloc(0);
    for (let call = 0; call < 600; call += 1) expect(judge(filter, architecture, first + call)).toBe(ENOSYS);
  });

  test('is there for architectures that are known', () => {
    expect(systemCallFilter('riscv64')).toBeUndefined();
  });
});

/** What a script prints in a job, without the service's own lines. */
async function lines(script: string): Promise<string[]> {
  await using bench = await Bench.open(localSubject({ sandbox }));
  const job = bench.job();
  const { exitCode } = await new Followed((await bench.executor()).run(job.order(script))).ended;
  expect(exitCode, job.log).toBe(0);
  return job.log.split('\n').filter((line) => line !== '' && !line.startsWith('[remote-app]'));
}

describe.runIf(sandbox && systemCallFilter(process.arch))('a job in its sandbox', () => {
  test('uses neither the keys of the kernel nor sockets of virtual machines, and makes other sockets', async () => {
    expect(await lines(`perl -e '${attempts}'`)).toEqual(answers);
  });

  test.skipIf(lacks('python3'))('runs programs as before, and has no descriptor of the filter', async () => {
    const script = `node -e 'console.log(process.arch)'; python3 -c 'print("python")'
      for each in /proc/self/fd/*; do readlink $each; done | grep -c socket || true`;
    expect(await lines(script)).toEqual([process.arch, 'python', '0']);
  });

  test('does not get round it by a program of 32 bits', async ({ skip }) => {
    await using root = await temporary();
    const file = path.join(root.path, 'program');
    writeFileSync(file, programOf32Bits(), { mode: 0o755 });
    const outside = spawnSync(file);
    if (process.arch !== 'x64' || outside.status === null) skip('this machine runs none');
    expect(outside.status).not.toBe(ENOSYS);
    const text = readFileSync(file).toString('base64');
    const script = `echo ${text} | base64 -d > program; chmod +x program; ./program || echo $?`;
    expect(await lines(script)).toEqual([String(ENOSYS)]);
  });
});

/** A program of i386 that asks for the id of its session's keyring, and ends with the number of the error. */
function programOf32Bits(): Buffer {
  const code = [
    ...[0xb8, 0x20, 1, 0, 0, 0x31, 0xdb], // mov eax, 288 (keyctl); xor ebx, ebx
    ...[0xb9, 0xfd, 0xff, 0xff, 0xff, 0x31, 0xd2], // mov ecx, -3; xor edx, edx
    ...[0xcd, 0x80, 0xf7, 0xd8, 0x89, 0xc3], // int 0x80; neg eax; mov ebx, eax
    ...[0xb8, 1, 0, 0, 0, 0xcd, 0x80], // mov eax, 1 (exit); int 0x80
  ];
  const base = 0x08048000;
  const headers = 52 + 32;
  const file = Buffer.alloc(headers + code.length);
  file.set([0x7f, 0x45, 0x4c, 0x46, 1, 1, 1], 0);
  // An executable of i386, version 1, its entry, its program header behind this one; the sizes of both.
  file.writeUInt16LE(2, 16);
  file.writeUInt16LE(3, 18);
  for (const [at, value] of [
    [20, 1],
    [24, base + headers],
    [28, 52],
  ] as const)
    file.writeUInt32LE(value, at);
  for (const [at, value] of [
    [40, 52],
    [42, 32],
    [44, 1],
  ] as const)
    file.writeUInt16LE(value, at);
  // All of it is loaded, to be read and run.
  const segment = [1, 0, base, base, file.length, file.length, 5, 0x1000];
  for (const [index, value] of segment.entries()) file.writeUInt32LE(value, 52 + 4 * index);
  file.set(code, headers);
  return file;
}
