import { realpath } from 'node:fs/promises';
import path from 'node:path';
import { PassThrough } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { RouterContext } from '@koa/router';
import { packListedTo, packTo } from '../../archive/index.js';
import { type AppList, type AppView, configName, mediaTypes } from '../../contract/index.js';
import { madeDirectories } from '../../files/index.js';
import type { AppCatalog } from '../apps/index.js';
import type { Executor } from '../executors/index.js';
import { captured, goneSignal, principalOf } from '../http/index.js';
import type { Report } from '../report.js';
import type { UsageLedger } from '../usage/index.js';
import { isWeights } from '../weights.js';
import { workersFor } from './system.js';

export const listApps = (catalog: AppCatalog, executor: Executor) => (ctx: RouterContext) => {
  const apps = catalog.ids(principalOf(ctx).apps);
  const names = new Set(workersFor(ctx, executor).map(({ name }) => name));
  const isLoaded = (id: string) => names.has(catalog.residentName(id) ?? '');
  // Names are determined from the apps' files, which are read only if an app is loaded.
  const loaded = names.size > 0 ? apps.filter(isLoaded) : [];
  ctx.body = { apps, ...(loaded.length > 0 && { loaded }) } satisfies AppList;
};

/**
 * Milliseconds that a description waits for the app's version, which is null after that: gigabytes take longer the first time.
 */
const versionWait = 2000;

/** `GET /repo_apps/{id}`. The version is computed in the background, so a client can ask for it again later. */
export const showApp = (catalog: AppCatalog, usage: UsageLedger) => async (ctx: RouterContext) => {
  const view = await catalog.view(catalog.get(captured(ctx), principalOf(ctx).apps));
  const asked = view.available ? await catalog.versionOf(view.app) : null;
  const late = () => delay(versionWait, null, { ref: false });
  const version = asked && { version: await Promise.race([asked.known, late()]) };
  const observed = usage.observed(view.app);
  const more = { ...(observed.length > 0 && { observed }), ...version };
  ctx.body = (view.available ? { ...view, ...more } : view) satisfies AppView;
};

/**
 * Whether a file of an app belongs to the app's configuration. Weights, packages and compiled Python do not. Neither do hidden
 * files and directories, because they may hold secrets (`.env`) or past versions (`.git`).
 */
const isConfig = (name: string): boolean =>
  !isWeights(name) && !name.split('/').some((part) => part.startsWith('.') || madeDirectories.has(part));

/**
 * Gives a file in a subdirectory a second name at the top of the archive, unless that is taken: KonfAI's clients look
 * only there.
 */
function atTheTop(): (name: string) => string | null {
  const taken = new Set<string>();
  return (name) => {
    const base = path.posix.basename(name);
    const isFree = !name.endsWith('/') && !taken.has(base);
    taken.add(base);
    return isFree && base !== name ? base : null;
  };
}

export const showRefresh = (catalog: AppCatalog) => async (ctx: RouterContext) => {
  ctx.body = await catalog.refreshView(principalOf(ctx).apps);
};

export const askForRefresh = (catalog: AppCatalog) => async (ctx: RouterContext) => {
  catalog.refresh();
  ctx.body = await catalog.refreshView(principalOf(ctx).apps);
};

export const sendAppConfig = (catalog: AppCatalog, report: Report) => async (ctx: RouterContext) => {
  const app = catalog.get(captured(ctx), principalOf(ctx).apps);
  const listed = app.repository === null ? null : await catalog.repositoryFiles(app);
  ctx.status = 200;
  ctx.type = mediaTypes.zip;
  ctx.attachment(configName);
  if (ctx.method === 'HEAD') return;
  const body = new PassThrough();
  ctx.body = body;
  const signal = goneSignal(ctx);
  const alsoAs = atTheTop();
  const packed =
    listed === null
      ? packTo(body, await realpath(app.argument), {
          include: isConfig,
          includeTarget: isConfig,
          alsoAs,
          signal,
        })
      : packListedTo(
          body,
          listed.filter(({ name }) => isConfig(name)),
          { alsoAs, signal },
        );
  packed.catch((cause) => {
    // It is not an error if the client has disconnected.
    if (!signal.aborted) report(`The configuration of ${app.id} could not be sent`, cause);
    body.destroy();
  });
};
