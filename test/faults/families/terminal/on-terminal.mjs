import { file } from '../../../support/form.mjs';
import { times } from '../../context.mjs';
import { ended, steps, submit } from '../../support/api.mjs';
import { remoteAppOnTerminal } from '../../support/client.mjs';
import { allSequences, hostileSequences, intruders } from './sequences.mjs';

/** Runs the real client on a real terminal, with an app that prints control sequences. */
export async function onTerminal(context, server) {
  const singles = hostileSequences(context.random).slice(0, times(context.rounds, 3));
  const all = ['everything that terminals obey', allSequences(context.random, '\n')];
  for (const [what, content] of [all, ...singles]) {
    await context.attempt(`A terminal and ${what}`, async () => {
      const id = await submit(server, 'rogue', 'infer', {
        inputs: file('scan.txt', `innocent\n${content}\nbehind\n`),
        options: steps({ do: 'echo' }),
      });
      await ended(server, id);
      const { output } = await remoteAppOnTerminal(context, ['logs', id], { url: server.url });
      context.count('terminals written to');
      const found = intruders(output);
      context.check(
        found.length === 0,
        `An app that prints ${what} reaches the terminal: ${JSON.stringify(found[0])}`,
      );
      context.check(
        output.includes('innocent') && output.includes('behind'),
        `The log beside ${what} did not reach the terminal`,
      );
    });
  }
}
