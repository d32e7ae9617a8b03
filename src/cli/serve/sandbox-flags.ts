import { Flags } from '@oclif/core';

/** The flags of `serve` that say what jobs see of the machine. */
export const sandboxFlags = {
  sandbox: Flags.option({
    options: ['auto', 'bwrap', 'off'] as const,
    default: 'auto',
    summary: 'What keeps jobs apart: bubblewrap where it works (auto), or else nothing starts (bwrap)',
  })(),
  network: Flags.string({
    multiple: true,
    multipleNonGreedy: true,
    default: [],
    helpValue: 'APP',
    summary: 'App whose jobs may use the network in their sandbox',
  }),
  bind: Flags.string({
    multiple: true,
    multipleNonGreedy: true,
    default: [],
    helpValue: 'PATH',
    summary: 'File or directory that jobs may read in their sandbox, such as models',
  }),
  'bind-rw': Flags.string({
    multiple: true,
    multipleNonGreedy: true,
    default: [],
    helpValue: 'PATH',
    summary: 'The same, which they may write to, such as a cache of models',
  }),
  'pass-env': Flags.string({
    multiple: true,
    multipleNonGreedy: true,
    default: [],
    helpValue: 'NAME',
    summary: "Variable of the server's environment that jobs get beside the usual ones",
  }),
};
