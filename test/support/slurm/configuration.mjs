// @ts-check
import path from 'node:path';

/**
 * A node of a cluster.
 * @typedef {object} ClusterNode
 * @property {string} name
 * @property {number} [cpus]
 * @property {number} [gpus]
 * @property {string} [gpuType]
 * @property {string} [features]
 * @property {string} [gpuFlags] as gres.conf has them: `no_gpu_env` sets no variable of CUDA
 */

/**
 * A partition of a cluster: its name, and what slurm.conf says of it beside that.
 * @typedef {object} Partition
 * @property {string} name
 * @property {string} [nodes] by default all
 * @property {string} [settings] as `MaxTime=1 PriorityTier=20`
 */

/** Two nodes, each with two GPUs of a type. @type {readonly ClusterNode[]} */
export const gpuNodes = ['n1', 'n2'].map((name) => ({ name, gpus: 2, gpuType: 'a100' }));

/** Two nodes without GPUs. @type {readonly ClusterNode[]} */
export const cpuNodes = ['n1', 'n2'].map((name) => ({ name }));

/**
 * `main`, the default; `short`, where a job may run for a minute; `urgent`, whose jobs take the place of others: those of
 * `main` are queued again, those of `scavenge` are ended.
 * @type {readonly Partition[]}
 */
export const partitions = [
  { name: 'main', settings: 'Default=YES PriorityTier=10 PreemptMode=REQUEUE' },
  { name: 'short', settings: 'MaxTime=1 PriorityTier=10 PreemptMode=REQUEUE' },
  { name: 'scavenge', settings: 'PriorityTier=1 PreemptMode=CANCEL' },
  { name: 'urgent', settings: 'PriorityTier=20 PreemptMode=OFF' },
];

/**
 * What a cluster is made of.
 * @typedef {object} Shape
 * @property {readonly ClusterNode[]} nodes
 * @property {readonly Partition[]} partitions
 * @property {readonly string[]} settings lines of slurm.conf, which replace those of the same name
 * @property {boolean} accounting whether Slurm notes in a database what jobs have used
 */

/**
 * Where its daemons listen: one port for each node, in their order.
 * @typedef {{ controller: number, nodes: readonly number[], accounting: number, database: number }} Ports
 */

/**
 * Where everything of a cluster lies.
 * @param {string} directory
 */
export const placesIn = (directory) => ({
  configuration: path.join(directory, 'slurm.conf'),
  gres: path.join(directory, 'gres.conf'),
  accounting: path.join(directory, 'slurmdbd.conf'),
  devices: path.join(directory, 'devices'),
  logs: path.join(directory, 'logs'),
  munge: path.join(directory, 'munge'),
  socket: path.join(directory, 'munge', 'socket'),
  spool: path.join(directory, 'spool'),
  state: path.join(directory, 'state'),
  shared: path.join(directory, 'shared'),
});

/** The file that stands for a GPU of a node; its number is what Slurm puts into CUDA_VISIBLE_DEVICES.
 * @param {string} directory
 * @param {string} node
 * @param {number} index
 */
export const deviceFile = (directory, node, index) =>
  path.join(placesIn(directory).devices, node, `gpu${index}`);

/** @param {ClusterNode} node */
const gresOf = ({ gpus = 0, gpuType }) => ['gpu', ...(gpuType ? [gpuType] : []), gpus].join(':');

/**
 * The text of slurm.conf. Several nodes lie on this host, each with its own port and spool directory; no control groups
 * are needed, so jobs are found by their processes. Memory is counted once a second, and a job that uses more
 * than it asked for is ended.
 * @param {string} directory
 * @param {string} host
 * @param {Ports} ports
 * @param {Shape} shape
 */
export function slurmConf(directory, host, ports, shape) {
  const places = placesIn(directory);
  const own = {
    ClusterName: 'remote-app',
    SlurmctldHost: `${host}(127.0.0.1)`,
    SlurmctldPort: ports.controller,
    SlurmUser: 'root',
    AuthType: 'auth/munge',
    AuthInfo: `socket=${places.socket}`,
    CredType: 'cred/munge',
    StateSaveLocation: places.state,
    SlurmdSpoolDir: path.join(places.spool, '%n'),
    SlurmctldPidFile: path.join(directory, 'slurmctld.pid'),
    SlurmdPidFile: path.join(directory, '%n.pid'),
    SlurmctldLogFile: path.join(places.logs, 'slurmctld'),
    SlurmdLogFile: path.join(places.logs, '%n'),
    MailProg: '/bin/true',
    MpiDefault: 'none',
    ProctrackType: 'proctrack/linuxproc',
    TaskPlugin: 'task/none',
    SelectType: 'select/cons_tres',
    SelectTypeParameters: 'CR_CPU_Memory',
    SlurmdParameters: 'config_overrides',
    ReturnToService: 2,
    GresTypes: 'gpu',
    DefMemPerNode: 500,
    JobAcctGatherType: 'jobacct_gather/linux',
    JobAcctGatherFrequency: 1,
    JobAcctGatherParams: 'OverMemoryKill',
    PreemptType: 'preempt/partition_prio',
    PreemptMode: 'REQUEUE',
    KillWait: 3,
    SlurmdTimeout: 15,
    // By default jobs start up to 3 s late.
    SchedulerParameters: 'batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0',
  };
  const accounting = {
    AccountingStorageType: 'accounting_storage/slurmdbd',
    AccountingStorageHost: '127.0.0.1',
    AccountingStoragePort: ports.accounting,
    // That is the socket of munge.
    AccountingStoragePass: places.socket,
  };
  const all = Object.entries({ ...own, ...(shape.accounting ? accounting : {}) });
  const replaced = new Set(shape.settings.map((line) => line.split('=')[0]));
  const lines = all.map(([name, value]) => `${name}=${value}`);
  const nodes = shape.nodes.map((node, index) => {
    const { name, cpus = 8, gpus = 0, features } = node;
    const words = [`NodeName=${name} NodeHostname=${name} NodeAddr=127.0.0.1 Port=${ports.nodes[index]}`];
    words.push(`CPUs=${cpus} RealMemory=100000`);
    if (gpus > 0) words.push(`Gres=${gresOf(node)}`);
    if (features !== undefined) words.push(`Feature=${features}`);
    return words.join(' ');
  });
  const everyNode = shape.nodes.map(({ name }) => name).join(',');
  const parts = shape.partitions.map(
    ({ name, nodes: of = everyNode, settings = '' }) => `PartitionName=${name} Nodes=${of} ${settings}`,
  );
  const kept = lines.filter((line) => !replaced.has(line.split('=')[0] ?? ''));
  return `${[...kept, ...shape.settings, ...nodes, ...parts].join('\n')}\n`;
}

/**
 * The text of gres.conf: the device files of the nodes' GPUs.
 * @param {string} directory
 * @param {Shape} shape
 */
export const gresConf = (directory, { nodes }) =>
  nodes
    .flatMap(({ name, gpus = 0, gpuType, gpuFlags }) => {
      const type = gpuType === undefined ? '' : ` Type=${gpuType}`;
      const flags = gpuFlags === undefined ? '' : ` Flags=${gpuFlags}`;
      const line = `NodeName=${name} Name=gpu${type}${flags}`;
      return Array.from(
        { length: gpus },
        (_, index) => `${line} File=${deviceFile(directory, name, index)}\n`,
      );
    })
    .join('');
