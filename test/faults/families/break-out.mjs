/** Jobs that try to get out: with a sandbox nothing succeeds, without one what docs/sandbox.md says, and nothing else. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { times } from '../context.mjs';
import { checkProcesses } from '../invariants.mjs';
import { isContained } from '../support/namespaces.mjs';
import { product } from '../support/server.mjs';
import { unprivileged } from '../support/unprivileged.mjs';
import { AttackedServer } from './break-out/attacked-server.mjs';
import { attacks } from './break-out/attacks.mjs';

/** Every attack in an order of its own; the one that ends the server, where it succeeds, comes last. */
function inOrder(random) {
  const names = Object.keys(attacks);
  const last = names.pop();
  return [...random.shuffle(names), last];
}

/** Tries every attack. */
async function tryAll(context, user, sandbox) {
  const attacked = new AttackedServer(context, user, sandbox);
  try {
    await attacked.open();
    if (!attacked.hasGpus) context.note('no /dev of its own can be made here: GPUs are left out');
    for (const name of inOrder(context.random)) {
      const { open, needsGpus = false, run } = attacks[name];
      if (needsGpus && !attacked.hasGpus) continue;
      const isExpected = open && sandbox === 'off';
      context.count(sandbox === 'off' ? 'attempts without a sandbox' : `attempts in a sandbox, ${user.name}`);
      await context.attempt(`'${name}', --sandbox ${sandbox}, ${user.name}`, async () => {
        const hasSucceeded = await run(attacked, context.random);
        const verb = hasSucceeded ? 'succeeds' : 'does not succeed';
        context.check(
          hasSucceeded === isExpected,
          `To ${name} ${verb} with --sandbox ${sandbox}, ${user.name}`,
        );
      });
    }
    if (user.isLoaded) context.check(attacked.warm > 0, 'No attack came from an app that was loaded already');
    if (attacked.server.isAlive) await checkProcesses(context, attacked.server);
  } finally {
    await attacked.close();
  }
}

/** docs/sandbox.md lists every attack, and which succeed without a sandbox. */
function checkPage(context) {
  const page = readFileSync(path.join(product, 'docs/sandbox.md'), 'utf8');
  for (const [name, { open }] of Object.entries(attacks)) {
    const row = `| ${name} | ${open ? 'yes' : 'no'} | no |`;
    context.check(page.includes(row), `docs/sandbox.md has no row '${row}'`);
  }
}

export async function run(context) {
  checkPage(context);
  if (!isContained()) {
    context.note(
      'left out: the attacks need mount and PID namespaces of their own, which unshare cannot make here',
    );
    return;
  }
  const user = unprivileged(context);
  if (user === null) context.note('no other user can be taken on: tried as root alone');
  const other = user && { ...user, name: 'as an ordinary user' };
  const users = [
    ...(other ? [other] : []),
    ...(process.getuid() === 0
      ? [{ home: context.scratch, launcher: [], environment: { HOME: context.scratch }, name: 'as root' }]
      : []),
  ];
  const probe = new AttackedServer(context, users[0], 'bwrap');
  try {
    await probe.server.start();
  } catch (cause) {
    probe.server.mayEnd = true;
    context.note(`no sandbox works here, so none is tried: ${cause.message.split('\n').at(-1)}`);
    return;
  } finally {
    await probe.close();
  }
  for (let round = 0; round < times(context.rounds, 1); round += 1) {
    for (const each of users) {
      await tryAll(context, each, 'bwrap');
      await tryAll(context, { ...each, name: `${each.name}, from a shared worker`, isLoaded: true }, 'bwrap');
    }
    await tryAll(context, users[0], 'off');
  }
}
