import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';

/**
 * A file of a thousand named tokens, all of different people, and an audit log beside it.
 * @returns the flags of a server that has them, the token that is last in the file, and that of another user
 */
export async function thousandTokens(workshop) {
  const token = 'a-token-of-the-bench';
  const file = path.join(await workshop.directory('tokens'), 'tokens.json');
  const tokens = Array.from({ length: 1000 }, (_, index) => ({
    name: `user-${index}`,
    role: 'user',
    hash: `sha256:${createHash('sha256')
      .update(index === 999 ? token : `other-${index}`)
      .digest('hex')}`,
    created_at: new Date().toISOString(),
    expires_at: null,
    revoked_at: null,
  }));
  await writeFile(file, JSON.stringify({ version: 1, tokens }), { mode: 0o600 });
  return {
    token,
    another: 'other-0',
    flags: ['--tokens', file, '--audit-log', path.join(path.dirname(file), 'audit')],
  };
}
