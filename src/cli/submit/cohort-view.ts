import { type CaseState, type CaseStatus, type CohortWatcher, isOver } from '../../client/cohort/index.js';
import type { Reporter, TransferPhase } from '../../client/reporter.js';
import { counted, oneLine, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import {
  type Colours,
  type CommandIo,
  cutMiddle,
  forJson,
  formatDuration,
  LiveBlock,
  type OpenReporter,
  openReporter,
  wrapped,
} from '../terminal/index.js';

/** A watcher that the command closes when it ends. */
export interface CohortView extends CohortWatcher {
  readonly reporter: Reporter;
  /** @param isSummed whether a summary follows that repeats the content of the block */
  close(isSummed?: boolean): void;
}

/** A case in the documents of `--json`. In the final document, it is `waiting` if the command ended before its turn. */
export interface CaseDocument extends Omit<CaseState, 'name' | 'jobId' | 'isNew'> {
  readonly case: string;
  readonly job_id: string | null;
  readonly is_new: boolean;
}

export const caseDocument = ({ name, jobId, isNew, ...about }: CaseState): CaseDocument => ({
  case: name,
  job_id: jobId,
  is_new: isNew,
  ...about,
});

/** Milliseconds between two redraws of the block. */
const redrawEvery = 200;
/** Maximum number of failures that the block shows; the latest ones are kept. */
const shownFailures = 5;
/** Maximum width of a case's name in the block, in columns. */
const nameWidth = 40;

/** The states of a case that is in progress. */
const inProgress: readonly CaseStatus[] = ['reading', 'sending', 'running', 'fetching'];

/** The progress of a case, besides its state. */
class CaseProgress implements Reporter {
  /** The last line of the app. */
  #line = '';
  #transfer = '';
  wait: string | null = null;
  /** Whether `wait` concerns the whole command. */
  isNews = false;

  async line(text: string): Promise<boolean> {
    this.#transfer = '';
    if (!text.startsWith(servicePrefix) && text.trim() !== '') this.#line = text.trim();
    return true;
  }

  async endLog(): Promise<boolean> {
    return true;
  }

  note(_text: string): void {}
  running(_isRunning: boolean): void {}
  silent(_what: string): void {}

  waiting(what: string | null, isNews = false): void {
    this.wait = what;
    this.isNews = isNews;
    this.#transfer = '';
  }

  progress(phase: TransferPhase, done: number, total: number): void {
    this.#transfer = total > 0 ? `${phase} ${Math.floor((done / total) * 100)}%` : phase;
  }

  /** A text of at most this many columns; empty if there is nothing to say. */
  drawing(columns: number): string {
    const text = this.wait ?? this.#transfer;
    return oneLine(text || this.#line).slice(0, Math.max(0, columns));
  }
}

/** Waits that several cases share, such as an unreachable server, and waits that concern the whole command. */
function sharedWaits(cases: readonly (CaseProgress | undefined)[]): Set<string> {
  const waits = cases.flatMap((each) => each?.wait ?? []);
  const news = cases.flatMap((each) => (each?.isNews ? (each.wait ?? []) : []));
  return new Set([...news, ...waits.filter((wait, at) => waits.indexOf(wait) < at)]);
}

/** Counts the cases, and estimates how long the rest takes. */
class Tally {
  readonly #states = new Map<string, CaseState>();
  #startedAt = 0;
  /** How many cases this command has computed. */
  #ended = 0;
  /** Highest number of cases in progress at the same time. */
  #maxInProgress = 1;

  begin(states: readonly CaseState[]): void {
    for (const state of states) this.#states.set(state.name, state);
    this.#startedAt = monotonicTime();
  }

  saw(state: CaseState): void {
    if (state.status === 'failed' || (isOver(state) && state.isNew)) this.#ended += 1;
    this.#states.set(state.name, state);
    if (inProgress.includes(state.status))
      this.#maxInProgress = Math.max(this.#maxInProgress, this.with(...inProgress).length);
  }

  with(...statuses: readonly CaseStatus[]): CaseState[] {
    return [...this.#states.values()].filter(({ status }) => statuses.includes(status));
  }

  /** The estimated time left. Null until as many cases have ended as run at once, because these tend to end together. */
  get #timeLeft(): string | null {
    const remaining = this.#states.size - this.with('done', 'failed').length;
    if (remaining === 0 || this.#ended < this.#maxInProgress) return null;
    return formatDuration(((monotonicTime() - this.#startedAt) / 1000 / this.#ended) * remaining);
  }

  get line(): string {
    const count = (...statuses: readonly CaseStatus[]) => this.with(...statuses).length;
    const [failed, timeLeft] = [count('failed'), this.#timeLeft];
    return (
      `${count('done')} of ${this.#states.size} done, ${count(...inProgress)} in progress, ${count('waiting')} waiting` +
      `${failed > 0 ? `, ${failed} failed` : ''}${timeLeft === null ? '' : `; about ${timeLeft} left`}`
    );
  }
}

/** For a terminal: one block that is redrawn in place. */
class TerminalView implements CohortView {
  readonly #block: LiveBlock;
  readonly #colours: Colours;
  readonly #tally = new Tally();
  readonly #cases = new Map<string, CaseProgress>();
  #timer: NodeJS.Timeout | undefined;
  /** Characters of the longest name. */
  #longest = 0;

  constructor(
    private readonly io: CommandIo,
    readonly reporter: OpenReporter,
  ) {
    this.#block = new LiveBlock(io.stderr);
    this.#colours = io.colours();
  }

  reporterOf(name: string): Reporter {
    const known = this.#cases.get(name) ?? new CaseProgress();
    this.#cases.set(name, known);
    return known;
  }

  began(states: readonly CaseState[]): void {
    this.reporter.close();
    this.#tally.begin(states);
    for (const { name } of states) this.#longest = Math.max(this.#longest, name.length);
    this.#timer = setInterval(() => this.#draw(), redrawEvery);
    this.#draw();
  }

  changed(state: CaseState): void {
    this.#tally.saw(state);
    if (isOver(state)) this.#cases.delete(state.name);
  }

  #draw(): void {
    const columns = Math.max(20, (this.io.stderr.columns || 80) - 1);
    const active = this.#tally.with(...inProgress);
    const width = Math.min(nameWidth, this.#longest, Math.floor(columns / 2));
    const room = columns - width - 4;
    const waits = sharedWaits(active.map(({ name }) => this.#cases.get(name)));
    const rows = active.map(({ name, status }) => {
      const progress = this.#cases.get(name);
      const isSaid = progress?.wait != null && waits.has(progress.wait);
      const more = isSaid ? status : progress?.drawing(room) || status;
      return `  ${cutMiddle(name, width).padEnd(width)}  ${more}`;
    });
    const failures = this.#tally.with('failed').slice(-shownFailures);
    this.#block.draw([
      ...[this.#tally.line, ...waits].flatMap((line) => wrapped(line, columns)),
      ...rows,
      ...failures.map(({ name, reason }) => this.#colours.error(oneLine(`  ${name}: ${reason ?? ''}`))),
    ]);
  }

  close(isSummed = false): void {
    this.reporter.close();
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    if (isSummed) this.#block.draw([]);
    else this.#draw();
  }
}

/** For a pipe or a file: a line for each case that ends. With `--json`, stdout gets the document and the lines go to stderr. */
function plainLines(
  io: CommandIo,
  reporter: Reporter,
  json: boolean,
): Pick<CohortWatcher, 'began' | 'changed'> {
  let hasBegun = false;
  return {
    began: (states) => {
      hasBegun = true;
      const done = states.filter(isOver).length;
      if (done > 0) reporter.note(`${done} of ${counted(states.length, 'case')} done already`);
    },
    changed: ({ name, status, reason, seconds, isNew }) => {
      if (!hasBegun || !(status === 'failed' || (status === 'done' && isNew))) return;
      const more =
        status !== 'done' ? `: ${reason ?? ''}` : seconds === null ? '' : ` (${formatDuration(seconds)})`;
      const line = `${oneLine(`${status} ${name}${more}`)}\n`;
      if (json) io.writeErr(line);
      else void io.writeOut(line);
    },
  };
}

/** A case whose progress is not drawn. A wait that concerns the whole command is reported once, whichever case it comes from. */
class UndrawnCase extends CaseProgress {
  constructor(
    private readonly all: Reporter,
    private readonly told: Set<string>,
  ) {
    super();
  }

  override waiting(what: string | null, isNews = false): void {
    super.waiting(what, isNews);
    if (what === null || !isNews || this.told.has(what)) return;
    this.told.add(what);
    this.all.note(what);
  }
}

/** For a program: a document on one line of stdout for each change of a case. */
function jsonLines(io: CommandIo): Pick<CohortWatcher, 'began' | 'changed'> {
  const changed = (state: CaseState) => void io.writeOut(`${forJson(JSON.stringify(caseDocument(state)))}\n`);
  return { began: (states) => states.forEach(changed), changed };
}

/** Opens the view of a cohort: a block on a terminal, otherwise a line for each case, or a document for each change. */
export async function openCohortView(io: CommandIo, json: boolean, watches: boolean): Promise<CohortView> {
  const reporter = await openReporter(io, { stdoutIsTaken: json, all: false });
  if (io.isInteractive() && !watches) return new TerminalView(io, reporter);
  const lines = watches ? jsonLines(io) : plainLines(io, reporter, json);
  const told = new Set<string>();
  return {
    reporter,
    reporterOf: () => new UndrawnCase(reporter, told),
    close: () => reporter.close(),
    ...lines,
  };
}
