import { expect, test } from 'vitest';
import { OwnerGate } from '../../../../src/server/executors/slurm/owner-gate.js';

/** A gate of two GPUs for each owner, and who has come in. */
function open(most: number | null = 2) {
  const limits = { most };
  const gate = new OwnerGate((owner) => (owner === 'ana' ? limits.most : null));
  const entered: string[] = [];
  const enter = (name: string, owner: string | null, gpus: number) =>
    gate.enter(owner, gpus, () => entered.push(name));
  return { gate, limits, entered, enter };
}

test('an owner has no more GPUs at once than they may, in the order of their jobs', () => {
  const { entered, enter, gate } = open();
  const leave = enter('a', 'ana', 1);
  const leaveToo = enter('b', 'ana', 1);
  enter('c', 'ana', 2);
  enter('d', 'ana', 1);
  expect(entered).toEqual(['a', 'b']);
  expect(gate.describe('ana')).toBe('a GPU: ana may have 2 at once and has 2');
  leave();
  // A small job does not go past a large one of the same owner.
  expect(entered).toEqual(['a', 'b']);
  leaveToo();
  leaveToo();
  expect(entered).toEqual(['a', 'b', 'c']);
});

test('jobs of others, and jobs on the CPU, do not wait for that', () => {
  const { entered, enter } = open();
  enter('a', 'ana', 2);
  enter('b', 'ana', 1);
  enter('cpu', 'ana', 0);
  enter('admin', null, 8);
  expect(entered).toEqual(['a', 'cpu', 'admin']);
});

test('what runs already counts, and a new limit lets in who waits', () => {
  const { gate, limits, entered, enter } = open();
  const leave = gate.hold('ana', 2);
  enter('a', 'ana', 1);
  const giveUp = enter('b', 'ana', 1);
  enter('c', 'ana', 1);
  giveUp();
  limits.most = 3;
  gate.reconsider();
  expect(entered).toEqual(['a']);
  leave();
  expect(entered).toEqual(['a', 'c']);
});
