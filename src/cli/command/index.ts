/** What all commands share: parsing, settings, connections, errors and interruptions. */
export { BaseCommand, keptUntil } from './base-command.js';
export { ClientCommand, type ConnectionFlags, type JobsOutput } from './client-command.js';
export { deidentifyChoice, deidentifyFlag, deidentifyFlags, wantsDeidentified } from './deidentify-flags.js';
export * from './flags.js';
export {
  type ConnectionChoices,
  checkToken,
  readNamedFile,
  resolveSettings,
  type Settings,
  type TypedFlags,
} from './settings.js';
export { FlagValueError, sentenceOf, wholeNumber } from './usage-errors.js';
