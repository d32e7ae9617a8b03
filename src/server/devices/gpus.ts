import { execa } from 'execa';

/** A GPU that jobs may be given. */
export interface Gpu {
  /** As nvidia-smi numbers it. */
  readonly id: number;
  readonly uuid: string;
  readonly name: string;
}

export interface VramUse {
  readonly id: number;
  /** Bytes. */
  readonly used: number;
  readonly total: number;
}

/** Milliseconds that nvidia-smi may take: a driver that is not persistent loads in some seconds. */
const queryTimeout = 20_000;
const mebibyte = 1024 ** 2;

/** Rows of an nvidia-smi query; none where there is no such program, no driver or no GPU. */
async function query(columns: readonly string[]): Promise<string[][]> {
  const result = await execa(
    'nvidia-smi',
    [`--query-gpu=${columns.join(',')}`, '--format=csv,noheader,nounits'],
    { reject: false, timeout: queryTimeout, stdin: 'ignore' },
  );
  if (result.failed) return [];
  return result.stdout
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => line.split(',').map((cell) => cell.trim()))
    .filter((cells) => cells.length >= columns.length);
}

/** Whether `CUDA_VISIBLE_DEVICES` lets this GPU be seen: by index, or by the beginning of its UUID. */
function isVisible(gpu: Gpu, visible: string | undefined): boolean {
  if (visible === undefined) return true;
  return visible
    .split(',')
    .map((entry) => entry.trim())
    .some((entry) =>
      /^\d+$/.test(entry) ? Number(entry) === gpu.id : entry !== '' && gpu.uuid.startsWith(entry),
    );
}

/** The GPUs of this machine, in nvidia-smi's order, less those that `CUDA_VISIBLE_DEVICES` hides. */
export async function listGpus(visible: string | undefined): Promise<Gpu[]> {
  const rows = await query(['index', 'uuid', 'name']);
  return rows
    .map(([index, uuid = '', ...name]) => ({ id: Number(index), uuid, name: name.join(', ') }))
    .filter((gpu) => Number.isInteger(gpu.id) && isVisible(gpu, visible));
}

/** VRAM of every GPU of this machine. A GPU that does not tell (shared memory, MIG) counts as 0. */
export async function readVram(): Promise<VramUse[]> {
  const rows = await query(['index', 'memory.used', 'memory.total']);
  const bytes = (cell: string | undefined) => (Number(cell) || 0) * mebibyte;
  return rows.map(([index, used, total]) => ({ id: Number(index), used: bytes(used), total: bytes(total) }));
}
