/** The allowlist of apps, their descriptions, and the command lines that run them. */
export {
  AllowedApps,
  checkNamedApps,
  type NamedApps,
  readSources,
  sourceProblems,
  uniqueApps,
} from './allowlist.js';
export { type AppFindings, lookAtApps } from './app-problems.js';
export { staysLoaded, viewAppDirectory } from './app-view.js';
export { AppCatalog } from './catalog.js';
export { residentEngine } from './command-line.js';
export { pythonWithoutCuda } from './missing-packages.js';
export { howEnded, runHere, type Trial, type TrialEnd, type TrialJob, trialRun } from './trial-run.js';
