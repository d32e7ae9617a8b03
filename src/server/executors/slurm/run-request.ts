import type { RunRequest } from '../../../runner/protocol.js';
import { passedNames } from '../../sandbox/passed-environment.js';
import type { Grant, RunOrder } from '../executor.js';
import type { SlurmContext } from './context.js';
import type { Placement } from './handshake.js';
import { deviceVariables } from './slurm.js';

/** What a command may want to know of its job in Slurm. Not all: some frameworks take their presence for one of many tasks. */
const ofJob = [
  'SLURM_JOB_ID',
  'SLURM_JOB_NODELIST',
  'SLURMD_NODENAME',
  'SLURM_JOB_GPUS',
  'SLURM_CPUS_PER_TASK',
  'SLURM_CPUS_ON_NODE',
  'SLURM_MEM_PER_NODE',
];

/**
 * The devices of a placement. GPUs have the numbers that CUDA_VISIBLE_DEVICES has on the node; where Slurm names them by
 * UUID they are counted from 0, as CUDA does then.
 */
export function grantOf({ devices }: Placement, cpuSlots: number): Grant {
  const isNumbered = devices.every((each) => /^\d+$/.test(each));
  const gpus = devices.map((each, index) => (isNumbered ? Number(each) : index));
  return {
    gpus,
    gpuUuids: isNumbered ? [] : devices,
    cpuSlots: gpus.length > 0 ? 0 : cpuSlots,
  };
}

/** What the runner on the node is asked to do. The variables that name the GPUs are those that Slurm has set there. */
export function runRequest(order: RunOrder, grant: Grant, context: SlurmContext): RunRequest {
  const { directory, environment } = order;
  const { passEnvironment: added, maxLogBytes, killGrace } = context;
  const hasGpus = grant.gpus.length > 0;
  const inherited = passedNames(context.environment, { isSandboxed: false, network: true, added });
  const ofSlurm = [...ofJob, ...(hasGpus ? deviceVariables : [])];
  return {
    jobId: directory.id,
    command: order.command(),
    wrapper: [],
    limits: { memory: null, processes: null },
    isSandboxed: false,
    directory: directory.workspace,
    output: directory.output,
    inherited: [...new Set([...inherited, ...ofSlurm])],
    environment: {
      ...environment,
      // With this order CUDA numbers GPUs as Slurm does.
      ...(hasGpus ? { CUDA_DEVICE_ORDER: 'PCI_BUS_ID' } : { CUDA_VISIBLE_DEVICES: '' }),
    },
    maxLogBytes,
    killGrace,
    gpuUuids: grant.gpuUuids,
  };
}
