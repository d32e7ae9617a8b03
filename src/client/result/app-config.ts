import { configName } from '../../contract/archives.js';
import { errorKinds } from '../../contract/errors.js';
import { appConfigPath } from '../../contract/paths.js';
import { quotePath } from '../../contract/quote.js';
import { shellWord } from '../../contract/shell-word.js';
import type { Connection } from '../connection/connection.js';
import { UsageError } from '../errors.js';
import { nextCommand } from '../next-command.js';
import type { Reporter } from '../reporter.js';
import { openPlace } from './claim-place.js';
import { hasFiles } from './destination.js';
import { type SavedArchive, saveArchive } from './save-archive.js';

/**
 * Downloads an app's configuration files to a directory (spec.md, App repository). The server chooses their names.
 * @param isForced whether files that are there may be replaced
 * @throws UsageError for a directory that has files
 */
export async function saveAppConfig(
  connection: Connection,
  app: string,
  directory: string,
  isForced: boolean,
  reporter: Reporter,
): Promise<SavedArchive> {
  if (!isForced && hasFiles(directory)) {
    throw new UsageError(
      `${quotePath(directory)} has files already, which the configuration could replace; name another directory with --config, or write into this one with --force`,
    );
  }
  const asked = appConfigPath(app);
  const request = async (headers: Readonly<Record<string, string>>) => {
    const reply = await connection.send(asked, { headers });
    if (reply.statusCode < 300 || reply.statusCode === errorKinds.noSuchRange.status) return reply;
    throw await connection.refused(reply, asked);
  };
  return saveArchive(connection, request, {
    reporter,
    name: configName,
    directory,
    claim: () => openPlace(directory, isForced),
    again: nextCommand(`apps ${shellWord(app)} --config DIR`),
  });
}
