import path from 'node:path';
import type { Voxels } from '@remote-app/volumes';
import { expect, test } from 'vitest';
import { parsed } from '../../imaging/deidentify/cleaned.js';
import { Cli } from '../../support/cli.js';
import { sharedServer } from '../../support/server.js';
import { plant } from '../../support/temporary.js';
import { WireTap } from '../../support/wire-tap.js';
import { load, SERIES } from './program.js';

const { readScan } = await load('lib/cases.mjs');

const server = sharedServer();

const bytesOf = ({ buffer, byteOffset, byteLength }: Voxels): Buffer =>
  Buffer.from(buffer, byteOffset, byteLength);

test('A series sent de-identified is the same scan to the app: voxels, affine and everything else it reads', async () => {
  await using cli = await Cli.create();
  await using tap = await WireTap.before(server.url);
  const sent = await cli.run(['infer', SERIES, '--deidentify', '--detach', '--server', tap.url]);
  expect(sent.code, sent.stderr).toBe(0);
  const slices = tap.files.filter(([name]) => name.endsWith('.dcm'));
  expect(slices).toHaveLength(20);
  for (const [, bytes] of slices) expect(parsed(bytes).string('x00120062')).toBe('YES');
  const arrived = slices.map(([name, bytes]) => [`arrived/${path.basename(name)}`, bytes] as const);
  await plant(cli.directory, Object.fromEntries(arrived));

  const lines: string[] = [];
  const log = { line: (text: string) => lines.push(text) };
  const { data: expected, ...place } = await readScan(SERIES, log);
  const { data, ...arrivedPlace } = await readScan(path.join(cli.directory, 'arrived'), log);
  expect(arrivedPlace).toEqual(place);
  expect(arrivedPlace.affine).toHaveLength(3);
  expect(data.constructor).toBe(expected.constructor);
  expect(Buffer.compare(bytesOf(data), bytesOf(expected))).toBe(0);
  expect(lines).toEqual([]);
});
