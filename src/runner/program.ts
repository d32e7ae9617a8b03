import { fileURLToPath } from 'node:url';

/** The runner's program. The relative path is the same from here and from the bundle's folder, dist/bundle/start. */
export const runnerProgram = fileURLToPath(new URL('../runner/main.js', import.meta.url));

/** The program that ends what a runner has left. */
export const sweepProgram = fileURLToPath(new URL('../runner/sweep.js', import.meta.url));

/** The keeper's program. */
export const keeperProgram = fileURLToPath(new URL('../keeper/main.js', import.meta.url));
