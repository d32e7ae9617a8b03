import { formatBytes } from '../../contract/index.js';
import type { Ended } from '../executors/index.js';

/**
 * What programs print when memory runs out, whatever the language of the system: CUDA, its libraries, PyTorch, CuPy and TensorRT;
 * ONNX Runtime, TensorFlow and JAX; Python, C++, ITK, PyTorch on the CPU and Node.
 */
const ofGpus =
  /(CUDA|HIP|MPS|cuda runtime)\b.{0,40}\bout of memory|(torch|cuda\.memory)\.OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|_ALLOC_FAILED\b|Error Code 2: OutOfMemory\b/;
const ofEither =
  /Failed to allocate memory for requested buffer|BFCArena|(RESOURCE_EXHAUSTED|ResourceExhaustedError): .*(OOM|Out of memory|allocat)/i;
const ofMachine =
  /MemoryError\b|MemoryAllocationError|\[Errno 12\]|DefaultCPUAllocator: .*memory|std::bad_alloc|heap out of memory/;

/** The memory that ran out. */
export type Scarce = 'GPU memory' | 'memory';

/**
 * Which memory a command ran out of; null if that is not why it ended.
 * @param isSaid whether its exit code says that memory ran out
 * @param tail the last lines of its log
 */
export function whatRanOut(end: Ended, hasGpus: boolean, isSaid: boolean, tail: () => string): Scarce | null {
  const { exitCode, fault, error, machineFault } = end;
  if (fault === 'outOfMemory') return 'memory';
  if (exitCode === null || exitCode === 0 || fault !== null || error !== null || machineFault) return null;
  const gpuOrNot = hasGpus ? 'GPU memory' : 'memory';
  if (isSaid) return gpuOrNot;
  const text = tail();
  if (ofGpus.test(text)) return 'GPU memory';
  if (ofEither.test(text)) return gpuOrNot;
  return ofMachine.test(text) ? 'memory' : null;
}

/** In bytes; null for a figure that is not known. */
interface Figures {
  /** Total memory of the smallest of its GPUs, or the memory that a job may use. */
  readonly available: number | null;
  readonly declared: number | null;
  /** Peak use. */
  readonly used: number | null;
}

/**
 * The error of a job that ran out of memory, with the figures that are known. @param meaning what its exit code means; null if it
 * has no special meaning
 */
export function outOfMemoryError(
  scarce: Scarce,
  { error, signal, exitCode }: Ended,
  meaning: string | null,
  figures: Figures,
): string {
  const known = Object.entries(figures).flatMap(([name, bytes]) =>
    bytes === null ? [] : [`${formatBytes(bytes)} ${name}`],
  );
  const numbers = known.length > 0 ? ` (${known.join(', ')})` : '';
  const killed = 'The command was killed, and not by this service: the server may have run out of memory';
  const ranOut = `The ${scarce === 'memory' ? 'command ran out of memory' : 'GPU ran out of memory'}, exit code ${exitCode}`;
  return (error ?? (signal === 'SIGKILL' ? killed : (meaning ?? ranOut))) + numbers;
}
