import { fileURLToPath } from 'node:url';

/** The runner's file. The path is the same from this folder and from the bundle's, dist/bundle/start. */
export const runnerProgram = fileURLToPath(new URL('../runner/main.js', import.meta.url));
