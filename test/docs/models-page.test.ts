import { execFile } from 'node:child_process';
import { copyFile, readFile, symlink } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { isSameGeometry, readVolume, writeNifti } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { appVariables } from '../../src/server/jobs/job-directory.js';
import { ball } from '../apps/brain/program.js';
import { straight } from '../support/affine.js';
import { plant, temporary } from '../support/temporary.js';

const execute = promisify(execFile);
const root = (file: string): string => fileURLToPath(new URL(`../../${file}`, import.meta.url));

test('The program of docs/models.md runs a real network, and writes a mask in the geometry of its input', async () => {
  const page = await readFile(root('docs/models.md'), 'utf8');
  const [, code = ''] = /^```javascript\n(.*?)^```$/ms.exec(page) ?? [];
  expect(code.split('\n').length).toBeLessThan(45);
  await using directory = await temporary();
  const at = (name: string) => path.join(directory.path, name);
  await plant(directory.path, { 'main.mjs': code, 'Output/': '' });
  await symlink(root('node_modules'), at('node_modules'));
  await copyFile(root('templates/resident/javascript/resident.mjs'), at('resident.mjs'));
  await copyFile(root('examples/apps/brain/model/box.onnx'), at('network.onnx'));
  const scan = ball([128, 128, 128], straight([-1, 1, 2], [60, -50, -40]));
  await writeNifti(at('scan.nii'), scan);
  const words = 'main.mjs infer APP --output Output --cpu 1 --inputs scan.nii --quiet'.split(' ');
  const env = { ...process.env, ...appVariables };
  const { stdout } = await execute(process.execPath, words, { env, cwd: directory.path });
  const mask = await readVolume(at('Output/scan_mask.nii.gz'));
  expect(isSameGeometry(mask, scan)).toBe(true);
  const count = mask.data.filter((value: number) => value === 1).length;
  expect(count).toBeGreaterThan(0);
  expect(stdout).toBe(`scan.nii: ${count} voxels\n`);
});
