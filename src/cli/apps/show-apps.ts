import {
  type AppAnswer,
  type Connection,
  checkAppId,
  type RefreshAnswer,
} from '../../client/connection/index.js';
import { UsageError } from '../../client/errors.js';
import type { Reporter } from '../../client/reporter.js';
import { type AppList, oneLine } from '../../contract/index.js';
import { columnsOf } from '../terminal/format.js';
import { naming } from './app-choice.js';
import { describeApp } from './app-text.js';
import { listApps } from './list-apps.js';

export type AppsSummary =
  | AppList
  | AppAnswer
  | RefreshAnswer
  | { readonly app: string; readonly config: string; readonly files: number };

export interface ShownApps {
  readonly lines: readonly string[];
  readonly summary: AppsSummary;
}

/** Lists the apps, describes one, or downloads the configuration of one to a directory. */
export async function showApps(
  connection: Connection,
  id: string | undefined,
  { config: configDirectory, force }: { readonly config?: string | undefined; readonly force: boolean },
  reporter: Reporter,
): Promise<ShownApps> {
  if (id) checkAppId(id);
  const { app, appList } = await import('../../client/connection/index.js');
  if (configDirectory !== undefined) {
    if (!id) throw new UsageError('Name the app whose configuration you want');
    const { saveAppConfig } = await import('../../client/result/index.js');
    const { output, files } = await naming(connection, id, () =>
      saveAppConfig(connection, id, configDirectory, force, reporter),
    );
    return { lines: [output], summary: { app: id, config: output, files } };
  }
  if (id) {
    const view = await naming(connection, id, () => app(connection, id));
    return { lines: describeApp(view, columnsOf(process.stdout)), summary: view };
  }
  const list = await appList(connection);
  const columns = columnsOf(process.stdout);
  // Scripts read identifiers; a person at a terminal also sees what each app is.
  const lines = columns === undefined ? list.apps.map(oneLine) : await listApps(connection, list, columns);
  return { lines, summary: list };
}
