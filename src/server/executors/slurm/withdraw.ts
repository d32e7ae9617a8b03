import type { SlurmContext } from './context.js';
import { stageOf } from './queue-rows.js';
import { Stopping } from './stopping.js';

/**
 * Cancels whatever Slurm has of a job directory whose command has not been started. Resolves when Slurm says that nothing
 * is left.
 */
export async function withdraw(directory: string, context: SlurmContext): Promise<void> {
  const { queue } = context;
  const stopping = new Stopping(context);
  const leave = queue.follow();
  try {
    for (;;) {
      await queue.look();
      const left = queue.rowsOf(directory).filter((row) => stageOf(row) !== 'ended');
      if (queue.problem === null && left.length === 0) return;
      stopping.ask(
        left.map(({ id }) => id),
        false,
      );
    }
  } finally {
    leave();
  }
}
