import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { Skipped } from '../../tools/python-environment.mjs';
import { Workshop } from './workshop.mjs';

/**
 * Runs a script's checks in a workshop that is removed at its end, also at an interruption, once the Python that they need is
 * there. Exits with 0 if there were no faults. Without Python, says `skipped:` and why, and exits with 0.
 * @param {(workshop: Workshop) => Promise<number>} test resolves with the number of faults
 */
export async function judgedByPython(environment, name, say, test) {
  try {
    await environment.prepare(say);
    const workshop = await Workshop.open(name);
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
      process.once(signal, async () => {
        await workshop.close();
        process.exit(130);
      });
    }
    try {
      process.exitCode = (await test(workshop)) === 0 ? 0 : 1;
    } finally {
      await workshop.close();
    }
  } catch (cause) {
    if (!(cause instanceof Skipped)) throw cause;
    say(`skipped: ${cause.message}`);
  }
}

/** Prints the checks that a program writes as lines of JSON. Resolves with the number that failed. */
export async function printChecks(program, words) {
  const judge = spawn(program, words, { stdio: ['ignore', 'pipe', 'inherit'] });
  let faults = 0;
  for await (const line of createInterface({ input: judge.stdout })) {
    if (!line.startsWith('{')) continue;
    const { case: name, check, good, figures } = JSON.parse(line);
    if (!good) faults += 1;
    console.log(`${good ? 'ok    ' : 'FAILED'}  ${name}, ${check}: ${JSON.stringify(figures)}`);
  }
  if (judge.exitCode === null) await once(judge, 'exit');
  if (judge.exitCode !== 0) throw new Error(`The judge ended with ${judge.exitCode}`);
  return faults;
}
