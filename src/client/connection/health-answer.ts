import { healthy } from '../../contract/system.js';
import type { Answer } from './check-answer.js';

/**
 * The answer that `GET /health` must give. Checked without zod, which takes longer to load than the whole health check:
 * scripts and orchestrators run it often (bench row `cli-health`).
 */
export const healthAnswer: Answer<typeof healthy> = {
  what: 'the health of a service',
  longest: 64 * 1024,
  check: (document) => {
    const { status } = Object(document) as { status?: unknown };
    if (status === healthy.status) return { success: true, data: healthy };
    const issue = { code: 'invalid_value' as const, path: ['status'], values: [healthy.status], message: '' };
    return { success: false, error: { issues: [issue] } };
  },
};
