import { minutesOf } from './options.js';

/** Columns of sinfo, which it pads to these widths: what is longer is cut, and no value of ours is. */
const columns = [
  ['NodeList', 128],
  ['Partition', 128],
  ['StateLong', 32],
  ['CPUs', 16],
  ['Gres', 512],
  ['GresUsed', 512],
  ['Time', 32],
] as const;

/** What sinfo is asked to print of each node of each partition. */
export const nodeFormat = columns.map(([name, width]) => `${name}:${width}`).join(',');

/** A GPU of a node. */
export interface NodeGpu {
  /** Such as `a100`; empty if Slurm has no word for it. */
  readonly type: string;
  readonly isFree: boolean;
}

/** A node of the cluster. */
export interface ClusterNode {
  readonly name: string;
  readonly cpus: number;
  readonly gpus: readonly NodeGpu[];
  /** Minutes that its partition lets a job run; null if that is not known. */
  readonly longest: number | null;
}

interface Line {
  readonly name: string;
  readonly partition: string;
  readonly state: string;
  readonly cpus: number;
  readonly gres: string;
  readonly used: string;
  readonly time: string;
}

function cells(line: string): string[] {
  let start = 0;
  return columns.map(([, width]) => {
    start += width;
    return line.slice(start - width, start).trim();
  });
}

function parseLine(line: string): Line[] {
  const [name = '', partition = '', state = '', cpus = '', gres = '', used = '', time = ''] = cells(line);
  if (name === '' || !/^\d+$/.test(cpus)) return [];
  return [{ name, partition, state, cpus: Number(cpus), gres, used, time }];
}

/** The entries of a list such as `gpu:a100:2(S:0-1),shard:8(IDX:0,2)`: a comma in parentheses separates nothing. */
const entriesOf = (list: string): string[] => list.match(/[^,(]+(?:\([^)]*\))?/g) ?? [];

/** How many GPUs of each type a list names, in its order. */
function countGpus(list: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const entry of entriesOf(list)) {
    const [, type = '', count] =
      /^gpu(?::([^:(]*[^:(\d][^:(]*))?(?::(\d+))?(?:\(|$)/.exec(entry.trim()) ?? [];
    if (!entry.trim().startsWith('gpu')) continue;
    counts.set(type, (counts.get(type) ?? 0) + Number(count ?? 1));
  }
  return counts;
}

/** States in which a node starts no job. */
const isUsable = (state: string): boolean => !/down|drain|fail|maint|not_resp|unk|boot|power|\*/.test(state);

function gpusOf({ gres, used, state }: Line): NodeGpu[] {
  const taken = countGpus(used);
  const takenInAll = [...taken.values()].reduce((sum, each) => sum + each, 0);
  const all = countGpus(gres);
  return [...all].flatMap(([type, count]) => {
    // With one type it may be named in one of the lists alone.
    const busy = all.size === 1 ? takenInAll : (taken.get(type) ?? 0);
    return Array.from({ length: count }, (_, index) => ({ type, isFree: isUsable(state) && index >= busy }));
  });
}

/**
 * The nodes that jobs may run on, each once, by name.
 * @param partition the partition that was asked for; null for the cluster's default one, which sinfo marks with `*`, or for
 *   all where there is none
 */
export function parseNodes(answer: string, partition: string | null): ClusterNode[] {
  const lines = answer.split('\n').flatMap(parseLine);
  const ofDefault = lines.filter((each) => each.partition.endsWith('*'));
  const counting = partition !== null || ofDefault.length === 0 ? lines : ofDefault;
  const byName = new Map(counting.map((line) => [line.name, line]));
  const collator = new Intl.Collator('en', { numeric: true });
  return [...byName.values()]
    .sort((a, b) => collator.compare(a.name, b.name))
    .map((line) => ({ name: line.name, cpus: line.cpus, gpus: gpusOf(line), longest: minutesOf(line.time) }));
}
