import { Flags } from '@oclif/core';
import { wholeNumber } from '../usage-errors.js';
import { repeatable } from './repeatable.js';
import { jobMemoryFlag } from './values.js';

/** The flags of `serve` that say what jobs see of the machine. */
export const sandboxFlags = {
  sandbox: Flags.option({
    options: ['auto', 'bwrap', 'off'] as const,
    default: 'auto',
    summary:
      "How jobs are kept apart: 'auto' uses bubblewrap if it works, 'bwrap' refuses to start without it",
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
    summary: 'The same, but writable, such as a cache of models',
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
    summary: 'Most memory of a job in its sandbox, at least 64MiB; unlimited by default',
  }),
  'pass-env': repeatable({
    helpValue: 'NAME',
    summary: "Variable of the server's environment to pass on to jobs",
  }),
};
