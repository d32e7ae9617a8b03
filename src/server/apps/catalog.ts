import type { AppView } from '../../contract/app-manifest.js';
import { ServiceError } from '../../contract/errors.js';
import { quoteName } from '../../contract/quote.js';
import type { Grant } from '../executors/executor.js';
import type { JobDirectory } from '../jobs/job-directory.js';
import type { JobRequest } from '../jobs/job-record.js';
import type { AllowedApp } from './allowlist.js';
import { ownCommand, viewAppDirectory } from './app-directory.js';
import { type AllFindings, lookAtApps } from './app-problems.js';
import { commandLine } from './command-line.js';
import { engineExits } from './engine-exits.js';

/** The apps of this server, and how each is run. */
export class AppCatalog {
  constructor(
    private readonly allowed: ReadonlyMap<string, AllowedApp>,
    /** The program for apps without a command of their own: `serve --engine`. */
    private readonly engine: readonly string[],
  ) {}

  /** What the apps lack, for the admin. */
  findings(): Promise<AllFindings> {
    return lookAtApps(this.allowed.values(), this.engine, process.env.PATH);
  }

  ids(): string[] {
    return [...this.allowed.keys()];
  }

  /** @throws ServiceError `unknownApp` for an app that is not on the allowlist */
  get(id: string): AllowedApp {
    const app = this.allowed.get(id);
    if (!app) throw new ServiceError('unknownApp', `Unknown app ${quoteName(id)}`);
    return app;
  }

  async view(id: string): Promise<AppView> {
    const { directory } = this.get(id);
    if (directory !== null) return viewAppDirectory(id, directory);
    return {
      app: id,
      available: false,
      reason: `The description of repository '${id}' is not on this server; its engine can still run it`,
    };
  }

  /**
   * The argument list of a job.
   * @throws Error that says what is wrong with the app
   */
  commandFor(request: JobRequest, directory: JobDirectory, grant: Grant): string[] {
    const app = this.allowed.get(request.app);
    if (!app) throw new Error(`App '${request.app}' is no longer on this server's allowlist`);
    const program = this.#ownCommand(app) ?? this.engine;
    return commandLine({ program, app: app.argument, request, output: directory.output, grant });
  }

  /** What an exit code of this app's program means, in words; null for one that means nothing in particular. */
  explainExit(id: string, exitCode: number): string | null {
    const app = this.allowed.get(id);
    try {
      return app && this.#ownCommand(app) === null ? (engineExits[exitCode] ?? null) : null;
    } catch {
      // The app's files have become unreadable while the job ran.
      return null;
    }
  }

  /** @returns null for an app that the engine runs */
  #ownCommand({ directory }: AllowedApp): readonly string[] | null {
    return directory === null ? null : ownCommand(directory);
  }
}
