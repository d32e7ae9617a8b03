import type { ServerTerms } from '../../../src/client/submit/preflight.js';

/** The terms of a server that does not say what its limits are. */
export const unknownTerms: ServerTerms = {
  checkKinds: () => {},
  checkSizes: () => {},
  fields: {},
  maxJobs: null,
  knowsKeys: false,
  takesUploads: false,
  requiresDeidentified: null,
};
