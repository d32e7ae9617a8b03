/** Runs jobs in bubblewrap sandboxes, and decides what they may see and use there. */
export { cgroupOf, delegatedCgroup } from './cgroups.js';
export {
  blindSpots,
  type FoundSandbox,
  findSandbox,
  type SandboxMode,
  sandboxRules,
} from './find-sandbox.js';
export { passedNames } from './passed-environment.js';
export { programPlaces } from './program-places.js';
export {
  type JobLimits,
  jobsInSandbox,
  limitWords,
  type Sandbox,
  temporaryInSandbox,
} from './sandbox.js';
export { checkSecrets, isWithin, type Visible } from './visible-files.js';
