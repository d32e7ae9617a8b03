import { Digests } from '../../../src/client/digests.js';
import type { UploadMemory } from '../../../src/client/submit/index.js';

/** Remembers nothing of earlier commands. */
export const noMemory = (): UploadMemory => ({
  digests: new Digests(null, { version: 'test' }),
  resends: false,
});
