/** Links and files that a job makes in its own directory, where the server, the runner and the packer open files. */
import path from 'node:path';
import { step } from '../../support/plan.mjs';

const records = ['log', 'exit.json', 'runner.json', 'job.json', 'run.json', 'result.zip'];
const passing = [
  'exit.json.reserved',
  'result.zip.partial',
  'job.json.partial',
  'exit.json.partial',
  'log.partial',
];

const instead = (name, put) => [step.remove(name, 'job'), put];

const linked = [...records, ...passing].map((name) => [
  `${name} is a link to a file elsewhere`,
  ({ victim }) => instead(name, step.link(name, path.join(victim, 'file'), 'job')),
]);
const fifos = [...records, 'exit.json.reserved', 'Output', 'Workspace'].map((name) => [
  `${name} is a FIFO`,
  () => instead(name, step.fifo(name, 'job')),
]);
const directories = [...records, 'exit.json.reserved'].map((name) => [
  `${name} is a directory`,
  () => instead(name, step.directory(name, 'job')),
]);
const elsewhere = ['Output', 'Workspace', 'Input', 'Workspace/tmp'].map((name) => [
  `${name} is a link to a directory elsewhere`,
  ({ victim }) => instead(name, step.link(name, victim, 'job')),
]);

export const plants = [
  ...linked,
  ...fifos,
  ...directories,
  ...elsewhere,
  ['Output is removed', () => [step.remove('Output', 'job')]],
  ['Output is a file', () => instead('Output', step.file('Output', 'no directory', 'job'))],
  [
    'Output is a link to a file',
    ({ victim }) => instead('Output', step.link('Output', path.join(victim, 'file'), 'job')),
  ],
  ['Output is a link to itself', () => instead('Output', step.link('Output', 'Output', 'job'))],
  [
    'a directory of Output is a link elsewhere',
    ({ victim }) => [step.directory('sub'), step.remove('sub'), step.link('sub', victim)],
  ],
  ['everything is removed', () => ['Output', 'Input', ...records].map((name) => step.remove(name, 'job'))],
];

/** Those that every run includes. */
export const mostHarmful = plants.filter(([what]) =>
  /^(log|Output|result.zip.partial) is a link to a (file|directory) elsewhere/.test(what),
);
