import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { step } from '../../support/plan.mjs';

const tree = (base) => [step.directory('closed/sub', base), step.file('closed/sub/file', 'x', base)];
const run = (...words) => execFileSync(words[0], words.slice(1), { stdio: 'ignore' });

const closed = (mode) => ({
  what: `directories of the mode 0${mode.toString(8)}`,
  steps: (base) => [...tree(base), step.mode('closed/sub', mode, base), step.mode('closed', mode, base)],
});

/**
 * What stands in the way of a removal. `steps` are what the job does; where `block` is given, nothing that the
 * server's user may do removes the job's directory until `free`.
 */
export function hindrances(rounds) {
  const count = rounds >= 30 ? 100_000 : rounds >= 10 ? 20_000 : 5000;
  const all = [
    closed(0o555),
    closed(0o000),
    { what: 'a path longer than PATH_MAX', steps: (base) => [step.abyss(25, base)] },
    { what: `${count} files`, steps: () => [step.many('many', count, 'workspace')] },
    {
      what: 'a file and a directory of strange names',
      steps: (base) => [step.file('\n', 'x', base), step.directory(Buffer.from([0xff]), base)],
    },
  ];
  if (process.getuid() !== 0) return all;
  return [
    ...all,
    {
      what: 'a mount point',
      steps: (base) => [step.directory('mnt', base)],
      block: (directory) =>
        run('mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path.join(directory, 'mnt')),
      free: (directory) => run('umount', path.join(directory, 'mnt')),
    },
    {
      what: 'a directory of another user',
      steps: () => [],
      block: (directory) => {
        const own = path.join(directory, 'own');
        mkdirSync(own);
        writeFileSync(path.join(own, 'file'), 'x');
        chownSync(own, 0, 0);
      },
      free: (directory) => run('rm', '-rf', path.join(directory, 'own')),
    },
    {
      what: 'a file that may not be changed',
      steps: (base) => [step.file('immutable', 'x', base)],
      block: (directory) => run('chattr', '+i', path.join(directory, 'immutable')),
      free: (directory) => run('chattr', '-i', path.join(directory, 'immutable')),
    },
  ];
}
