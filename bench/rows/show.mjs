import path from 'node:path';
import { remoteApp } from '../support/command.mjs';
import { interleave } from '../support/interleave.mjs';
import { atMost } from '../support/reach.mjs';
import { writeBalls, writeCt } from '../support/scans.mjs';

const slices = 600;

async function measure({ workshop, rounds }, what) {
  const directory = await workshop.directory('ct');
  const [scan, mask] = ['scan.nii.gz', 'mask.nii.gz'].map((name) => path.join(directory, name));
  const count = Math.max(2, slices);
  await writeCt(scan, count);
  await writeBalls(mask, count);
  const words = ['show', scan, mask, '--force', '--png', path.join(directory, 'sheet.png')];
  const show = () => remoteApp(workshop, words, { memory: what === 'memory' });
  if (what === 'memory') {
    const { memory } = await show();
    return { figure: memory, memory: [memory] };
  }
  const { figure } = await interleave(rounds, { figure: show });
  return { figure: figure.seconds, cpu: [figure.cpu] };
}

export const rows = [
  {
    name: 'show-ct',
    what: 'remote-app show --png, CT of 512 x 512 x 600 with 25 labels',
    yardstick: '-',
    unit: 's',
    reach: atMost(3, 's'),
    measure: (bench) => measure(bench, 'time'),
  },
  {
    name: 'memory-show-ct',
    what: 'the same, resident memory',
    yardstick: '-',
    unit: 'MiB',
    reach: atMost(400, 'MiB'),
    measure: (bench) => measure(bench, 'memory'),
  },
];
