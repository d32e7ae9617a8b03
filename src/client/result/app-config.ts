import { configName } from '../../contract/archives.js';
import { errorKinds } from '../../contract/errors.js';
import { appConfigPath } from '../../contract/paths.js';
import { shellWord } from '../../contract/shell-word.js';
import type { Connection } from '../connection/connection.js';
import { nextCommand } from '../next-command.js';
import type { Reporter } from '../reporter.js';
import { openPlace } from './claim-place.js';
import { type SavedArchive, saveArchive } from './save-archive.js';

/** Downloads an app's configuration files to a directory (spec.md, App repository). */
export function saveAppConfig(
  connection: Connection,
  app: string,
  directory: string,
  reporter: Reporter,
): Promise<SavedArchive> {
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
    claim: () => openPlace(directory),
    again: nextCommand(`apps ${shellWord(app)} --config DIR`),
  });
}
