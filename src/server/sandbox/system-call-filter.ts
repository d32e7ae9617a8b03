import { constants } from 'node:os';

/** The system calls of one architecture that a job may not make, or not with all arguments: their numbers. */
interface Calls {
  /** `AUDIT_ARCH_*` of linux/audit.h. */
  readonly architecture: number;
  /** `add_key`, `request_key` and `keyctl`. Keyrings are in no namespace, so all jobs of a server would share them. */
  readonly keys: readonly number[];
  /** `socket` and `socketpair`, whose first argument is the family. */
  readonly sockets: readonly number[];
  /** `socketcall` of i386: a filter cannot read the family, which is in memory. */
  readonly socketcall?: number;
  /** Calls from this number on are those of x32. */
  readonly x32?: number;
}

/** The same number on all architectures. What is started with it can make sockets too, which a filter does not see. */
const ioUringSetup = 425;

const x64: Calls = { architecture: 0xc000003e, keys: [248, 249, 250], sockets: [41, 53], x32: 0x40000000 };
const i386: Calls = { architecture: 0x40000003, keys: [286, 287, 288], sockets: [359, 360], socketcall: 102 };
const arm64: Calls = { architecture: 0xc00000b7, keys: [217, 218, 219], sockets: [198, 199] };
const arm: Calls = { architecture: 0x40000028, keys: [309, 310, 311], sockets: [281, 288] };

/** The architectures of the programs that a machine runs, by the machine's own as Node names it. All are little-endian. */
const known: Readonly<Record<string, readonly Calls[]>> = { x64: [x64, i386], arm64: [arm64, arm] };

/** `AF_VSOCK`: sockets between virtual machines and their host, which are in no network namespace. */
const vsock = 40;

/** `BPF_LD | BPF_W | BPF_ABS` of linux/filter.h, and so on. */
const loadWord = 0x20;
const jumpIfEqual = 0x15;
const jumpIfAtLeast = 0x35;
const end = 0x06;

/** Where `struct seccomp_data` of linux/seccomp.h has the number of the call, its architecture, and the lower half of the first argument. */
const numberAt = 0;
const architectureAt = 4;
const firstArgumentAt = 16;

/** `SECCOMP_RET_ALLOW` and `SECCOMP_RET_ERRNO` of linux/seccomp.h. */
const allow = 0x7fff0000;
const fail = (error: number): number => 0x00050000 | error;

/** What a kernel without the call says. Programs then go on without it; EPERM is a failure to some of them. */
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

/** The instructions for the calls of one architecture. They always end the program. */
const ofArchitecture = ({ architecture, keys, sockets, socketcall, x32 }: Calls): Instruction[] =>
  when(architecture, [
    load(numberAt),
    ...(x32 === undefined ? [] : [[jumpIfAtLeast, 0, 1, x32] as const, answer(noSuchCall)]),
    ...[...keys, ioUringSetup].flatMap((call) => when(call, [answer(noSuchCall)])),
    ...sockets.flatMap((call) =>
      when(call, [load(firstArgumentAt), ...when(vsock, [answer(noSuchFamily)]), answer(allow)]),
    ),
    ...(socketcall === undefined ? [] : when(socketcall, [answer(noSuchFamily)])),
    answer(allow),
  ]);

/**
 * The filter of the system calls of jobs, as bwrap reads it: a BPF program, which the kernel runs before each call. Calls of an
 * architecture that is not in the table fail.
 * @param architecture the machine's, as Node names it
 * @returns undefined if its calls are not in the table
 */
export function systemCallFilter(architecture: string): Buffer | undefined {
  const program = known[architecture]?.flatMap(ofArchitecture);
  if (!program) return undefined;
  const all = [load(architectureAt), ...program, answer(noSuchCall)];
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
