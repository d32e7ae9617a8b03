import { constants } from 'node:os';

/** The numbers of one architecture's system calls that a job may not make, or only with certain arguments. */
interface Calls {
  /** `AUDIT_ARCH_*` of linux/audit.h. */
  readonly architecture: number;
  /** `add_key`, `request_key` and `keyctl`. Keyrings are in no namespace, so all jobs of a server would share them. */
  readonly keys: readonly number[];
  /** `socket` and `socketpair`, whose first argument is the family. */
  readonly sockets: readonly number[];
}

/** By Node's name of the architecture. */
const known: Readonly<Record<string, Calls>> = {
  x64: { architecture: 0xc000003e, keys: [248, 249, 250], sockets: [41, 53] },
  arm64: { architecture: 0xc00000b7, keys: [217, 218, 219], sockets: [198, 199] },
};

/** The same number on all architectures. Rings of io_uring can open sockets that no filter sees. */
const ioUringSetup = 425;

/** From this number on, calls belong to x32, a second table of x64. arm64 has none so high. */
const firstOfX32 = 0x40000000;

/** `AF_VSOCK`: sockets between virtual machines and their host, which are in no network namespace. */
const vsock = 40;

/** `BPF_LD | BPF_W | BPF_ABS` of linux/filter.h, and so on. */
const loadWord = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const end = 0x06;

/**
 * Offsets in `struct seccomp_data` of linux/seccomp.h: of the number of the call, its architecture, and the lower half of the
 * first argument.
 */
const numberAt = 0;
const architectureAt = 4;
const firstArgumentAt = 16;

/** `SECCOMP_RET_ALLOW` and `SECCOMP_RET_ERRNO` of linux/seccomp.h. */
const allow = 0x7fff0000;
const fail = (error: number): number => 0x00050000 | error;

/**
 * The error that a kernel without the call returns. Programs then continue without the call; some would treat EPERM as a failure.
 */
const noSuchCall = fail(constants.errno.ENOSYS);
const noSuchFamily = fail(constants.errno.EAFNOSUPPORT);

/** `struct sock_filter`: what to do, how many instructions to skip if a comparison is true and if it is false, and a value. */
type Instruction = readonly [code: number, ifTrue: number, ifFalse: number, value: number];

const load = (at: number): Instruction => [loadWord, 0, 0, at];
const answer = (value: number): Instruction => [end, 0, 0, value];

/** Instructions that run if the loaded word has this value, and are skipped otherwise. */
const when = (value: number, then: readonly Instruction[]): Instruction[] => [
  [jumpIfEqual, 0, then.length, value],
  ...then,
];

/**
 * The filter of the system calls of jobs, as bwrap reads it: a BPF program, which the kernel runs before each call. Calls of
 * other architectures fail, such as those of 32-bit programs: they would be a way around the filter.
 * @param architecture the machine's, as Node names it
 * @returns undefined if its calls are not in the table
 */
export function systemCallFilter(architecture: string): Buffer | undefined {
  const calls = known[architecture];
  if (!calls) return undefined;
  const all = [
    load(architectureAt),
    ...when(calls.architecture, [
      load(numberAt),
      [jumpIfAtLeast, 0, 1, firstOfX32] as const,
      answer(noSuchCall),
      ...[...calls.keys, ioUringSetup].flatMap((call) => when(call, [answer(noSuchCall)])),
      ...calls.sockets.flatMap((call) =>
        when(call, [load(firstArgumentAt), ...when(vsock, [answer(noSuchFamily)]), answer(allow)]),
      ),
      answer(allow),
    ]),
    answer(noSuchCall),
  ];
  return Buffer.concat(
    all.map(([code, ifTrue, ifFalse, value]) => {
      const instruction = Buffer.alloc(8);
      instruction.writeUInt16LE(code, 0);
      instruction.writeUInt8(ifTrue, 2);
      instruction.writeUInt8(ifFalse, 3);
      instruction.writeUInt32LE(value, 4);
      return instruction;
    }),
  );
}
