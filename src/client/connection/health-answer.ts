import { healthy } from '../../contract/system.js';
import type { Answer } from './check-answer.js';

/**
 * What `GET /health` must answer with. Checked by hand: a health check is over before zod would be loaded, and what starts
 * one often (an orchestrator, a script) waits for it.
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
