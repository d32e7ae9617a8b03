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
    'Send only files of these participants (sub-LABEL) of directories and patterns; with or without sub-',
  ),
  'session-label': list('LABEL[,LABEL]', 'The same for sessions (ses-LABEL)'),
  suffix: list(
    'NAME[,NAME]',
    'Send only inputs whose name ends so before the ending, such as T1w; ground truth and masks may have others',
  ),
  exclude: list(
    'PATTERN[,PATTERN]',
    "Leave out files and directories with such names, as in --exclude '*_acq-test_*'",
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
