import { Flags } from '@oclif/core';
import type { Selection } from '../../client/submission.js';

const list = (helpValue: string, description: string) =>
  Flags.string({
    helpGroup: 'JOB',
    helpValue,
    multiple: true,
    multipleNonGreedy: true,
    delimiter: ',',
    description,
  });

/** The flags for choosing which files of directories and patterns are sent. */
export const selectionFlags = {
  'participant-label': list(
    'LABEL[,LABEL]',
    'From directories and patterns, send only files of these participants (sub-LABEL, with or without sub-)',
  ),
  'session-label': list(
    'LABEL[,LABEL]',
    'From directories and patterns, send only files of these sessions (ses-LABEL)',
  ),
  suffix: list(
    'NAME[,NAME]',
    'Send only inputs whose name has this suffix before the extension, such as T1w; does not apply to ground ' +
      'truth and masks',
  ),
  exclude: list(
    'PATTERN[,PATTERN]',
    "Leave out files and directories whose names match, as in --exclude '*_acq-test_*'",
  ),
};

export type SelectionFlags = Readonly<
  Partial<Record<keyof typeof selectionFlags, readonly string[] | undefined>>
>;

export const selectionOf = (flags: SelectionFlags): Selection => ({
  participants: flags['participant-label'] ?? [],
  sessions: flags['session-label'] ?? [],
  suffixes: flags.suffix ?? [],
  exclude: flags.exclude ?? [],
});
