import { oneLine } from '../../../contract/quote.js';

/** What the reasons mean that jobs usually wait for, in words that go on from "Waiting for". */
const meanings: Readonly<Record<string, string>> = {
  Resources: 'free resources of the cluster',
  Priority: 'jobs before it in the queue of the cluster',
  Dependency: 'another job of the cluster',
  BeginTime: 'the time at which Slurm may start it',
  JobHeldAdmin: 'the admin of the cluster, who holds it',
  JobHeldUser: 'somebody to release it, who holds it',
  PartitionDown: 'its partition, which is down',
  PartitionInactive: 'its partition, which is inactive',
  PartitionTimeLimit: 'a change of its settings: its time limit is longer than its partition allows',
  PartitionNodeLimit: 'a change of its settings: its partition has no such nodes',
  Reservation: 'its reservation',
  Licenses: 'a licence',
};

/** A reason that Slurm has not decided on yet: a job that was just submitted has it. */
export const isUndecided = (reason: string): boolean => reason === 'None' || reason === '';

/** What a job waits for in Slurm, in words, with Slurm's own reason. */
export function waitingWords(reason: string): string {
  if (isUndecided(reason)) return 'Slurm to start it';
  const [word = ''] = reason.split(',');
  const isLimit = /^(?:QOS|Assoc).*(?:Limit|Max|Grp)|^Assoc|^QOS/.test(word);
  const meaning = meanings[word] ?? (isLimit ? 'its turn under a limit of the cluster' : 'Slurm to start it');
  return `${meaning} (Slurm: ${oneLine(reason)})`;
}
