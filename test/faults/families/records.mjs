/**
 * What lies under the data directory is damaged between two lives of a server: it starts, what is whole is there,
 * and nothing is deleted but what is the server's own and over.
 */
import { times } from '../context.mjs';
import { unprivileged } from '../support/unprivileged.mjs';
import { damagedCase, dealDamages } from './records/cases.mjs';
import { failedReading } from './records/failed-reading.mjs';
import { underRunners } from './records/under-runners.mjs';
import { World } from './records/world.mjs';

const casesInTenRounds = 12;

export async function run(context) {
  const user = unprivileged(context);
  if (user === null) {
    context.note('LEFT OUT: another user than root cannot be had here, or may not read this checkout');
    return;
  }
  const world = new World(context, user);
  await world.make();
  const cases = Math.max(2, times(context.rounds, casesInTenRounds));
  for (const damaged of dealDamages(context, world, cases)) await damagedCase(context, world, damaged);
  for (let more = times(context.rounds, 3); more > 0; more -= 1) await failedReading(context, world);
  for (let more = times(context.rounds, 3); more > 0; more -= 1) await underRunners(context, world);
}
