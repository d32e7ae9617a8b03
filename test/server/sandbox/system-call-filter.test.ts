import { constants } from 'node:os';
import { describe, expect, test } from 'vitest';
import { systemCallFilter } from '../../../src/server/sandbox/system-call-filter.js';
import { lacks } from '../../support/needs.mjs';
import { sandbox } from '../../support/sandbox.js';
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
  const [x64, i386, arm64] = [0xc000003e, 0x40000003, 0xc00000b7];

  test.each([
    ['x64', x64, [248, 249, 250], [41, 53]],
    ['arm64', arm64, [217, 218, 219], [198, 199]],
  ] as const)(
    'The filter of system calls of %s refuses keys, io_uring and sockets of virtual machines',
    (machine, number, keys, sockets) => {
      const filter = systemCallFilter(machine) ?? Buffer.alloc(0);
      const calls = Array.from({ length: 600 }, (_, call) => call);
      const errors = calls
        .map((call) => [call, judge(filter, number, call, vsock)] as const)
        .filter(([, error]) => error !== 0);
      const refusedCalls = [...keys, 425].map((call) => [call, ENOSYS]);
      const families = sockets.map((call) => [call, EAFNOSUPPORT]);
      expect(Object.fromEntries(errors)).toEqual(Object.fromEntries([...refusedCalls, ...families]));
      for (const call of sockets) {
        for (const family of [unix, internet]) expect(judge(filter, number, call, family)).toBe(0);
      }
    },
  );

  test.each([
    ['x32', 'x64', x64, 0x40000000],
    ['32-bit programs', 'x64', i386, 0],
    ['another architecture', 'arm64', x64, 0],
  ])('The filter of system calls refuses all calls of %s on %s', (_, machine, architecture, first) => {
    const filter = systemCallFilter(machine) ?? Buffer.alloc(0);
    for (let call = 0; call < 600; call += 1) expect(judge(filter, architecture, first + call)).toBe(ENOSYS);
  });

  test('The filter of system calls exists only for known architectures', () => {
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
  test('A job in its sandbox can use neither kernel keys nor virtual machine sockets, but other sockets work', async () => {
    expect(await lines(`perl -e '${attempts}'`)).toEqual(answers);
  });

  test.skipIf(lacks('python3'))(
    'A job in its sandbox runs programs, and inherits no descriptor of the filter',
    async () => {
      const script = `node -e 'console.log(process.arch)'; python3 -c 'print("python")'
      for each in /proc/self/fd/*; do readlink $each; done | grep -c socket || true`;
      expect(await lines(script)).toEqual([process.arch, 'python', '0']);
    },
  );
});
