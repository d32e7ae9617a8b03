import { appConfigPath, configName, errorKinds, quotePath, shellWord } from '../../contract/index.js';
import type { Connection } from '../connection/index.js';
import { UsageError } from '../errors.js';
import type { Reporter } from '../reporter.js';
import { ArchiveFetch, type SavedArchive } from './fetch-archive.js';
import { hasFiles } from './output-directory.js';

/**
 * Downloads an app's configuration files to a directory (docs/http.md, Apps). The server chooses the file names.
 * @param isForced whether existing files may be replaced
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
      `${quotePath(directory)} already contains files, which the configuration could replace; name another directory with --config, or write into this one with --force`,
    );
  }
  const asked = appConfigPath(app);
  const request = async (headers: Readonly<Record<string, string>> = {}) => {
    const reply = await connection.send(asked, { headers });
    if (reply.statusCode < 300 || reply.statusCode === errorKinds.noSuchRange.status) return reply;
    throw await connection.refused(reply, asked);
  };
  const answer = await request();
  await using archive = await ArchiveFetch.open({
    reporter,
    name: configName,
    output: { directory, taken: isForced ? 'replace' : 'refuse' },
    again: connection.nextCommand(`apps ${shellWord(app)} --config DIR`),
  });
  await archive.downloadAndExtract(connection, answer, request);
  return await archive.save();
}
