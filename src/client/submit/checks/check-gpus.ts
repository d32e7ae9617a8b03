import { exitCodes } from '../../../contract/errors.js';
import { flagName } from '../../../contract/fields.js';
import { fieldWithRole } from '../../../contract/operations.js';
import { quoteName } from '../../../contract/quote.js';
import type { Connection } from '../../connection/index.js';
import { devices } from '../../connection/index.js';
import { ClientError, UsageError } from '../../errors.js';
import type { Submission } from '../submission.js';
import { ifItCanSay, patience } from './if-it-can-say.js';

/**
 * Checks that the server has the GPUs that a submission names. A server that cannot tell its GPUs at the moment decides
 * later.
 * @throws UsageError for an id that it does not have; ClientError (exit 6) if it has no GPU at all
 */
export async function checkGpus(
  connection: Connection,
  { operation, fields }: Pick<Submission, 'operation' | 'fields'>,
): Promise<void> {
  const gpu = fieldWithRole(operation, 'gpus');
  const given = fields[gpu.name];
  if (given === undefined) return;
  const list = await ifItCanSay(connection, () => devices(connection, patience));
  if (list === null) return;
  const known = list.devices_index;
  const unknown = given
    .split(',')
    .map(Number)
    .filter((id) => !known.includes(id));
  if (unknown.length === 0) return;
  const flag = `--${flagName(gpu)}`;
  if (known.length === 0) {
    const cpu = `--${flagName(fieldWithRole(operation, 'workers'))}`;
    throw new ClientError(
      `${flag} ${given}: ${connection.server} has no GPU; leave out ${flag}, or give ${cpu}, to run on its CPU`,
      exitCodes.busy,
    );
  }
  const names = known.map((id, index) => `${id} (${quoteName(list.devices_name[index] ?? '')})`).join(', ');
  throw new UsageError(
    `${flag} ${given}: ${connection.server} has no GPU ${unknown.join(', ')}; it has: ${names}`,
  );
}
