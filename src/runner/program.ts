import { fileURLToPath } from 'node:url';

/** The runner's program. The relative path is the same from here and from the bundle's folder, dist/bundle/start. */
export const runnerProgram = fileURLToPath(new URL('../runner/main.js', import.meta.url));
