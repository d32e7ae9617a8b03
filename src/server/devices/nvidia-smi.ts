import { oneLine, quoteName } from '../../contract/index.js';
import { errorCode, faultWithoutPath, isOnPath } from '../../files/index.js';
import { type ProgramEnd, type ProgramOptions, runProgram } from '../../programs/index.js';

/** A MIG instance of a GPU. */
export interface MigInstance {
  /** nvidia-smi's index and UUID of the divided GPU. */
  readonly gpu: number;
  readonly gpuUuid: string;
  /** For example `3g.20gb`. */
  readonly profile: string;
  /** The driver's numbers of the instance, by which its device files are found. */
  readonly gpuInstance: number;
  readonly computeInstance: number;
}

/** A GPU or a MIG instance, as nvidia-smi shows it at one moment. */
export interface GpuRow {
  /**
   * nvidia-smi's index; for a MIG instance, 100 + 10 times the index of its GPU + the number of the instance on that GPU, which
   * is at most 6.
   */
  readonly id: number;
  /** Empty if nvidia-smi does not report it. */
  readonly uuid: string;
  readonly name: string;
  /** What nvidia-smi prints instead of a value if the GPU has failed, such as `[GPU is lost]`; otherwise null. */
  readonly fault: string | null;
  /** Bytes; null if nvidia-smi prints no number. */
  readonly used: number | null;
  readonly total: number | null;
  /** False for a GPU without memory of its own, or whose driver never reports it. */
  readonly isMemoryTold: boolean;
  /** Whether MIG divides the GPU, so that programs can use only its instances. */
  readonly isDivided: boolean;
  /** Null for a whole GPU. */
  readonly mig: MigInstance | null;
}

const mebibyte = 1024 ** 2;
/** Maximum number of rows that are read: more GPUs than any machine has. */
const maxRows = 1024;
const maxNameLength = 200;

/** Printed by nvidia-smi for a figure that the GPU does not have, or that its driver does not report to this user. */
const notTold = /^\[?(N\/A|Not Supported|Not Found|Function Not Found|Insufficient Permissions)\]?$/i;

/** Printed for a GPU that does not respond to the driver. */
const isFault = (cell: string): boolean => /^(\[.*\]|ERR!)$/.test(cell) && !notTold.test(cell);

/** The column that says whether MIG divides a GPU. Drivers from before 2020 do not know it, and are asked without it. */
const migColumn = 'mig.mode.current';
const migMode = /^(Enabled|Disabled|N\/A|\[.*\])$/;

/**
 * Converts a figure in MiB to bytes; null if it is not a number. Some versions of nvidia-smi print the unit despite `nounits`.
 */
function bytes(cell: string): number | null {
  const [, figure] = /^(\d{1,9})( MiB)?$/.exec(cell) ?? [];
  return figure === undefined ? null : Number(figure) * mebibyte;
}

function parseRow(line: string): GpuRow | null {
  const [index = '', uuid = '', used = '', total = '', ...rest] = line.split(',').map((cell) => cell.trim());
  const mode = rest.length > 1 && migMode.test(rest[0] ?? '') ? rest[0] : null;
  const name = mode === null ? rest : rest.slice(1);
  if (!/^\d{1,4}$/.test(index) || name.length === 0) return null;
  const fault = [uuid, name.join(', '), used, total].find(isFault);
  return {
    id: Number(index),
    uuid: /^[\w-]{1,100}$/.test(uuid) ? uuid : '',
    name: oneLine(name.join(', ')).slice(0, maxNameLength),
    fault: fault === undefined ? null : oneLine(fault).slice(0, maxNameLength),
    used: bytes(used),
    total: bytes(total),
    isMemoryTold: !notTold.test(used) && !notTold.test(total),
    isDivided: mode === 'Enabled',
    mig: null,
  };
}

/** The text of the first XML element with this name; empty if there is none. The elements that are read have no attributes. */
const element = (xml: string, name: string): string =>
  new RegExp(`<${name}>(.*?)</${name}>`, 's').exec(xml)?.[1]?.trim() ?? '';

/**
 * The MIG instances of a GPU, from the output of `nvidia-smi -L` and `nvidia-smi -q -x`; the GPU itself, marked as failed, if it
 * has none.
 */
function instancesOf(gpu: GpuRow, list: string, log: string): GpuRow[] {
  const isOwn = (text: string) => text.includes(gpu.uuid);
  const lines = list.split(/^(?=GPU \d)/m).find(isOwn) ?? '';
  const devices = (log.split('<gpu ').find(isOwn) ?? '').split('<mig_device>').slice(1);
  const found = lines.matchAll(/^\s+MIG (\S+)\s+Device\s+(\d): \(UUID: (MIG-[\w/-]{1,100})\)/gm);
  const rows = [...found].map(([, profile = '', device = '', uuid = '']): GpuRow => {
    const told = devices.find((each) => element(each, 'index') === device) ?? '';
    const memory = element(told, 'fb_memory_usage');
    const [used, total] = [element(memory, 'used'), element(memory, 'total')];
    return {
      ...gpu,
      id: 100 + 10 * gpu.id + Number(device),
      uuid,
      name: `${gpu.name} MIG ${profile}`,
      used: bytes(used),
      total: bytes(total),
      isMemoryTold: !notTold.test(used) && !notTold.test(total),
      isDivided: false,
      mig: {
        gpu: gpu.id,
        gpuUuid: gpu.uuid,
        profile,
        gpuInstance: Number(element(told, 'gpu_instance_id')),
        computeInstance: Number(element(told, 'compute_instance_id')),
      },
    };
  });
  return rows.length > 0 ? rows : [{ ...gpu, fault: 'MIG is enabled, and there is no instance' }];
}

/**
 * The rows of nvidia-smi's answer (CSV, no header, no units). Skips other lines: nvidia-smi prints warnings between its
 * rows ("WARNING: infoROM is corrupted at gpu ..."). Skips a second row with the same index as well.
 */
export function parseRows(text: string): readonly GpuRow[] {
  const rows = new Map<number, GpuRow>();
  for (const line of text.split('\n')) {
    const row = parseRow(line);
    if (row && !rows.has(row.id)) rows.set(row.id, row);
    if (rows.size === maxRows) break;
  }
  return [...rows.values()];
}

/** The first line of an answer that is not a row, such as a warning; empty if there is none. */
const firstOddLine = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.trim())
    .find((line) => line !== '' && !parseRow(line)) ?? '';

/**
 * The processes in an answer to `processQuery`: process id, UUID of the GPU, and bytes used. Processes without a reported memory
 * use are left out.
 */
const parseProcesses = (text: string) =>
  text.split('\n').flatMap((line) => {
    const [pid = '', gpu = '', cell = ''] = line.split(',').map((each) => each.trim());
    const used = bytes(cell);
    return /^\d{1,9}$/.test(pid) && used !== null ? { pid: Number(pid), gpu, used } : [];
  });

/** nvidia-smi gave no usable answer. The message gives the reason, and may be shown to clients. */
export class NoGpuAnswer extends Error {
  override readonly name = 'NoGpuAnswer';
}

const closedMessage = 'the server is shutting down';
const program = 'nvidia-smi';
const format = '--format=csv,noheader,nounits';
/** The name comes last because it may contain commas. */
const query = (...mig: string[]) => [
  `--query-gpu=${['index', 'uuid', 'memory.used', 'memory.total', ...mig, 'name'].join(',')}`,
  format,
];
const processQuery = ['--query-compute-apps=pid,gpu_uuid,used_memory', format];

/** Milliseconds that an answer may take: without persistence mode the driver needs seconds to load. */
const defaultDeadline = 20_000;
/** Maximum number of bytes read from an answer. */
const maxAnswerBytes = 1 << 20;
/**
 * Maximum number of different oddities that are reported, so that a driver that puts the time into its warnings does not fill the
 * log.
 */
const maxOddities = 20;

/** Whether nvidia-smi is on PATH. ENOENT does not tell, because a script without its interpreter causes it as well. */
export const isInstalled = ({ PATH = '' }: NodeJS.ProcessEnv): boolean => isOnPath(program, PATH);

const firstLine = (text: string): string => text.trim().split('\n')[0] ?? '';

/**
 * The rows that a finished nvidia-smi printed. They are used whatever the exit code is: it is 14 if an infoROM is corrupted,
 * which harms no job. "No devices" is an answer too, with its own exit code.
 */
function rowsOf({ exitCode, signal, stdout, stderr }: ProgramEnd): readonly GpuRow[] {
  const rows = parseRows(stdout);
  if (rows.length > 0) return rows;
  if (exitCode === 6 || /No devices were found/i.test(`${stdout}\n${stderr}`)) return [];
  const words = firstLine(stdout.trim() === '' ? stderr : stdout);
  const saying = words === '' ? '' : `: ${quoteName(words)}`;
  if (signal !== null) throw new NoGpuAnswer(`nvidia-smi was ended by ${signal}`);
  if (exitCode !== 0) throw new NoGpuAnswer(`nvidia-smi failed (exit code ${exitCode})${saying}`);
  throw new NoGpuAnswer(`nvidia-smi printed no line that lists a GPU${saying}`);
}

/** A phrase for what is odd about an answer that lists GPUs; empty if nothing is. */
function oddityOf({ exitCode, signal, stdout, stderr }: ProgramEnd): string {
  const words = firstOddLine(stdout) || firstLine(stderr);
  return [
    signal === null ? exitCode !== 0 && `exit code ${exitCode}` : `ended by ${signal}`,
    words !== '' && quoteName(words),
  ]
    .filter(Boolean)
    .join(', ');
}

/**
 * Asks nvidia-smi for the GPUs of this machine. Simultaneous calls share one process, which is killed when it takes too long. If
 * the process survives that because it hangs in the driver, no other is started until it has ended.
 */
export class NvidiaSmi {
  #underWay: Promise<readonly GpuRow[]> | null = null;
  #last: Promise<unknown> = Promise.resolve();
  readonly #closing = new AbortController();
  #remains: ProgramEnd['remains'] = null;
  readonly #oddities = new Set<string>();

  /**
   * @param killGroup signals all processes of a group
   * @param onOdd called once for each different oddity in answers that list GPUs
   */
  constructor(
    private readonly deadline = defaultDeadline,
    private readonly killGroup?: ProgramOptions['killGroup'],
    private readonly onOdd: (oddity: string) => void = () => {},
    readonly environment: NodeJS.ProcessEnv = process.env,
  ) {}

  /**
   * All GPUs, with each GPU that MIG divides replaced by its instances; an empty list if nvidia-smi is not installed or finds no
   * GPU.
   * @throws NoGpuAnswer
   */
  ask(): Promise<readonly GpuRow[]> {
    this.#underWay ??= this.#ask().finally(() => {
      this.#underWay = null;
    });
    return this.#underWay;
  }

  /** The processes that use GPUs and whose memory use is reported. @throws NoGpuAnswer; the system's error */
  async processes() {
    return parseProcesses((await this.#run(processQuery)).stdout);
  }

  /** Ends a call in progress. Later calls fail. */
  close(): void {
    this.#closing.abort();
  }

  async #ask(): Promise<readonly GpuRow[]> {
    try {
      let end = await this.#run(query(migColumn));
      if (`${end.stdout}${end.stderr}`.includes(`"${migColumn}" is not a valid field`))
        end = await this.#run(query());
      const rows = rowsOf(end);
      if (rows.length > 0) this.#tellOdd(oddityOf(end));
      if (!rows.some(({ isDivided }) => isDivided)) return rows;
      const list = await this.#run(['-L']);
      const log = await this.#run(['-q', '-x']);
      return rows.flatMap((row) => (row.isDivided ? instancesOf(row, list.stdout, log.stdout) : [row]));
    } catch (cause) {
      if (cause instanceof NoGpuAnswer) throw cause;
      if (errorCode(cause) === 'ENOENT' && !isInstalled(this.environment)) return [];
      throw new NoGpuAnswer(`nvidia-smi could not be started: ${faultWithoutPath(cause)}`, { cause });
    }
  }

  #tellOdd(oddity: string): void {
    if (oddity === '' || this.#oddities.has(oddity) || this.#oddities.size === maxOddities) return;
    this.#oddities.add(oddity);
    this.onOdd(oddity);
  }

  /** Makes one call at a time, so that at most one process hangs in a faulty driver. */
  #run(args: readonly string[]): Promise<ProgramEnd> {
    const end = this.#last.then(() => this.#call(args));
    this.#last = end.catch(() => {});
    return end;
  }

  async #call(args: readonly string[]): Promise<ProgramEnd> {
    const { signal } = this.#closing;
    if (signal.aborted) throw new NoGpuAnswer(closedMessage);
    if (this.#remains) {
      throw new NoGpuAnswer(
        `nvidia-smi (process ${this.#remains.pid}) hangs and could not be ended; no other is started before it has`,
      );
    }
    const end = await runProgram([program, ...args], {
      environment: this.environment,
      limit: this.deadline,
      maxBytes: maxAnswerBytes,
      stop: signal,
      ...(this.killGroup ? { killGroup: this.killGroup } : {}),
    });
    this.#remember(end);
    if (end.endedFor === 'stop') throw new NoGpuAnswer(closedMessage);
    if (end.endedFor === 'output') {
      throw new NoGpuAnswer(`nvidia-smi printed more than ${maxAnswerBytes} bytes`);
    }
    if (end.endedFor === 'limit') {
      throw new NoGpuAnswer(`nvidia-smi did not answer within ${this.deadline / 1000} seconds`);
    }
    return end;
  }

  /** Remembers a hanging process until it has ended. */
  #remember({ remains }: ProgramEnd): void {
    this.#remains = remains;
    const forget = () => {
      this.#remains = null;
    };
    remains?.gone.then(forget, forget);
  }
}
