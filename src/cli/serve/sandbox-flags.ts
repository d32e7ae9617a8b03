import { Flags } from '@oclif/core';
import { wholeNumber } from '../usage-errors.js';
import { repeatable } from './repeatable.js';
import { jobMemoryFlag } from './values.js';

/** The flags of `serve` that say what jobs see of the machine. */
export const sandboxFlags = {
  sandbox: Flags.option({
    options: ['auto', 'bwrap', 'off'] as const,
    default: 'auto',
    summary: 'What keeps jobs apart: bubblewrap where it works (auto), or else nothing starts (bwrap)',
  })(),
  network: repeatable({
    helpValue: 'APP',
    summary: 'App whose jobs may use the network in their sandbox',
  }),
  bind: repeatable({
    helpValue: 'PATH',
    summary: 'File or directory that jobs may read in their sandbox, such as models',
  }),
  'bind-rw': repeatable({
    helpValue: 'PATH',
    summary: 'The same, which they may write to, such as a cache of models',
  }),
  'processes-per-job': wholeNumber({
    helpValue: 'N',
    default: 4096,
    min: 1,
    summary:
      'Most processes and threads of a job in its sandbox; more are refused, or end the job of a server that is root',
  }),
  'memory-per-job': jobMemoryFlag({
    helpValue: 'SIZE',
    summary:
      'Most memory of a job in its sandbox, at least 64MiB, in the same units as --max-file-size; by default all there is',
  }),
  'pass-env': repeatable({
    helpValue: 'NAME',
    summary: "Variable of the server's environment that jobs get beside the usual ones",
  }),
};
