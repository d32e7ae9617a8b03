import { Flags } from '@oclif/core';

/** A flag that may be given several times, one word each time. */
export const repeatable = Flags.custom<string>({
  multiple: true,
  multipleNonGreedy: true,
  default: [],
  // oclif would show an empty list as `[default: ]`.
  defaultHelp: async () => undefined,
});
