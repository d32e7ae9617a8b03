import path from 'node:path';
import { configName } from '../../contract/archives.js';
import { errorKinds } from '../../contract/errors.js';
import { appConfigPath } from '../../contract/paths.js';
import type { Connection } from '../connection/connection.js';
import type { Reporter } from '../reporter.js';
import { type SavedArchive, saveArchive } from './save-archive.js';

/** Downloads an app's configuration files to a directory (spec.md, App repository). */
export function saveAppConfig(
  connection: Connection,
  app: string,
  directory: string,
  reporter: Reporter,
): Promise<SavedArchive> {
  const request = async (headers: Readonly<Record<string, string>>) => {
    const reply = await connection.send(appConfigPath(app), { headers });
    if (reply.statusCode < 300 || reply.statusCode === errorKinds.noSuchRange.status) return reply;
    throw await connection.refused(reply);
  };
  return saveArchive(connection, request, path.join(directory, configName), {
    reporter,
    again: `remote-app apps ${app} --config DIR`,
  });
}
