import { readFileSync } from 'node:fs';
import { checkpoint } from './nnunet-folder.js';

interface Facts {
  readonly networks: Readonly<Record<string, { folder: string; network: string; folds: number[] | null }>>;
  readonly tasks: Readonly<Record<string, { licence: boolean; default: number[]; fast?: number[] }>>;
}

/** What `init --from totalsegmentator` knows of the tasks. */
export const facts: Facts = JSON.parse(
  readFileSync('templates/from/totalsegmentator/tasks.json', 'utf8'),
) as Facts;

/** The directory of a network of TotalSegmentator. */
export const networkOf = (id: number): string => {
  const { folder = '', network = '' } = facts.networks[id] ?? {};
  return `${folder}/${network}`;
};

/** The files of the networks with these numbers, laid out as the package downloads them. */
export const weightsOf = (directory: string, ids: readonly number[]): Record<string, string | Buffer> =>
  Object.fromEntries(
    ids.flatMap((id) => {
      const place = `${directory}/${networkOf(id)}`;
      const folds = facts.networks[id]?.folds ?? [0, 1];
      return [
        [`${place}/dataset.json`, '{}'],
        [`${place}/plans.json`, '{}'],
        ...folds.map((fold) => [`${place}/fold_${fold}/checkpoint_final.pth`, checkpoint]),
      ];
    }),
  );
