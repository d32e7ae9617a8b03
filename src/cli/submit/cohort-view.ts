import type { CaseState, CaseStatus, CohortWatcher } from '../../client/cohort/index.js';
import type { Reporter, TransferPhase } from '../../client/reporter.js';
import { oneLine, servicePrefix } from '../../contract/index.js';
import { monotonicTime } from '../../files/index.js';
import {
  AppBars,
  Colours,
  forJson,
  formatDuration,
  isInteractive,
  LiveBlock,
  openReporter,
  writeErr,
  writeOut,
} from '../terminal/index.js';

/** A watcher that the command closes at its end. */
export interface CohortView extends CohortWatcher {
  readonly reporter: Reporter;
  close(): void;
}

/** A case in the documents of `--json`. */
export interface CaseDocument {
  readonly case: string;
  /** `waiting` in the document at the end: the command ended before its turn. */
  readonly status: CaseStatus;
  readonly reason: string | null;
  /** How long its job ran. */
  readonly seconds: number | null;
  readonly job_id: string | null;
  /** Whether this command brought the result, and not an earlier one. */
  readonly is_new: boolean;
  /** The numbers that its result carries. */
  readonly numbers: Readonly<Record<string, number>>;
}

export const caseDocument = ({
  name,
  status,
  reason,
  seconds,
  jobId,
  isNew,
  numbers,
}: CaseState): CaseDocument => ({
  case: name,
  status,
  reason,
  seconds,
  job_id: jobId,
  is_new: isNew,
  numbers,
});

/** Milliseconds between two pictures of the block. */
const redrawEvery = 200;
/** Failures that the block shows, the last ones. */
const shownFailures = 5;
/** Columns for a case's name in the block. */
const nameWidth = 32;

/** What is known of a case that is worked on, besides its state. */
class CaseProgress implements Reporter {
  readonly #bars = new AppBars();
  #phrase = '';

  async line(text: string): Promise<boolean> {
    if (text.startsWith(servicePrefix)) return true;
    if (this.#bars.push(text) === null) {
      this.#bars.interrupt();
      this.#phrase = text;
    }
    return true;
  }

  async endLog(): Promise<boolean> {
    this.#bars.end();
    return true;
  }

  note(_text: string): void {}
  running(_isRunning: boolean): void {}
  silent(_what: string): void {}

  waiting(what: string | null): void {
    this.#phrase = what ?? '';
  }

  progress(phase: TransferPhase, done: number, total: number): void {
    this.#phrase = total > 0 ? `${phase} ${Math.floor((done / total) * 100)}%` : phase;
  }

  /** At most this many columns. */
  drawing(columns: number): string {
    return this.#bars.isEmpty
      ? oneLine(this.#phrase).slice(0, Math.max(0, columns))
      : this.#bars.drawing(columns);
  }
}

/** Counts the cases, and guesses how long the rest takes. */
class Tally {
  readonly #states = new Map<string, CaseState>();
  #ends: number[] = [];

  begin(states: readonly CaseState[]): void {
    for (const state of states) this.#states.set(state.name, state);
    this.#ends = [monotonicTime()];
  }

  saw(state: CaseState): void {
    const isEnd = state.status === 'failed' || (state.status === 'done' && state.isNew);
    if (isEnd && this.#ends.length > 0) this.#ends.push(monotonicTime());
    this.#states.set(state.name, state);
  }

  with(...statuses: readonly CaseState['status'][]): CaseState[] {
    return [...this.#states.values()].filter(({ status }) => statuses.includes(status));
  }

  /** The time that is left: the median between two ends, for each case that is left. Null while nothing has ended. */
  get left(): string | null {
    const between = this.#ends.slice(1).map((end, index) => end - (this.#ends[index] ?? end));
    const left = this.#states.size - this.with('done', 'failed').length;
    if (between.length === 0 || left === 0) return null;
    const median = between.toSorted((a, b) => a - b)[Math.floor(between.length / 2)] ?? 0;
    return formatDuration((median * left) / 1000);
  }

  get line(): string {
    const running = this.with('reading', 'sending', 'running', 'fetching').length;
    const [done, waiting, failed] = [
      this.with('done').length,
      this.with('waiting').length,
      this.with('failed').length,
    ];
    const { left } = this;
    return (
      `${done} of ${this.#states.size} done, ${running} in progress, ${waiting} waiting` +
      `${failed > 0 ? `, ${failed} failed` : ''}${left === null ? '' : `; about ${left} left`}`
    );
  }
}

/** A terminal: one block that is redrawn in its place. */
class TerminalView implements CohortView {
  readonly #block = new LiveBlock(process.stderr);
  readonly #colours = new Colours(process.stderr);
  readonly #tally = new Tally();
  readonly #cases = new Map<string, CaseProgress>();
  #timer: NodeJS.Timeout | undefined;

  constructor(readonly reporter: Reporter & { close(): void }) {}

  reporterOf(name: string): Reporter {
    const known = this.#cases.get(name) ?? new CaseProgress();
    this.#cases.set(name, known);
    return known;
  }

  began(states: readonly CaseState[]): void {
    this.reporter.close();
    this.#tally.begin(states);
    this.#timer = setInterval(() => this.#draw(), redrawEvery);
    this.#draw();
  }

  changed(state: CaseState): void {
    this.#tally.saw(state);
    if (state.status === 'done' || state.status === 'failed') this.#cases.delete(state.name);
  }

  #draw(): void {
    const columns = Math.max(20, (process.stderr.columns || 80) - 1);
    const active = this.#tally.with('reading', 'sending', 'running', 'fetching').map(({ name, status }) => {
      const shown = name.length > nameWidth ? `${name.slice(0, nameWidth - 1)}…` : name;
      const head = `  ${shown.padEnd(Math.min(nameWidth, 24))}  `;
      return head + (this.#cases.get(name)?.drawing(columns - head.length) || status);
    });
    const failures = this.#tally.with('failed').slice(-shownFailures);
    this.#block.draw([
      this.#tally.line,
      ...active,
      ...failures.map(({ name, reason }) => this.#colours.error(oneLine(`  ${name}: ${reason ?? ''}`))),
    ]);
  }

  close(): void {
    this.reporter.close();
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#draw();
  }
}

/** A pipe or a file: a line for each case that ends. With `--json` stdout has the document, and the lines go to stderr. */
class PlainView implements CohortView {
  #hasBegun = false;

  constructor(
    readonly reporter: Reporter & { close(): void },
    private readonly json: boolean,
  ) {}

  reporterOf(): Reporter {
    return new CaseProgress();
  }

  began(states: readonly CaseState[]): void {
    this.#hasBegun = true;
    const done = states.filter(({ status }) => status === 'done').length;
    if (done > 0) this.reporter.note(`${done} of ${states.length} cases are done already`);
  }

  changed({ name, status, reason, seconds, isNew }: CaseState): void {
    if (!this.#hasBegun || !(status === 'failed' || (status === 'done' && isNew))) return;
    const more =
      status === 'failed' ? `: ${reason ?? ''}` : seconds === null ? '' : ` (${formatDuration(seconds)})`;
    const line = `${oneLine(`${status} ${name}${more}`)}\n`;
    if (this.json) writeErr(line);
    else void writeOut(line);
  }

  close(): void {
    this.reporter.close();
  }
}

/** For a program: a document on stdout for each change of a case, on a line. */
class JsonView implements CohortView {
  constructor(readonly reporter: Reporter & { close(): void }) {}

  reporterOf(): Reporter {
    return new CaseProgress();
  }

  began(states: readonly CaseState[]): void {
    for (const state of states) this.changed(state);
  }

  changed(state: CaseState): void {
    void writeOut(`${forJson(JSON.stringify(caseDocument(state)))}\n`);
  }

  close(): void {
    this.reporter.close();
  }
}

/** How a cohort is shown: at a terminal in one block, elsewhere with a line for each case, or as documents for each change. */
export async function openCohortView(json: boolean, watches: boolean): Promise<CohortView> {
  const reporter = await openReporter({ stdoutIsTaken: json, all: false });
  if (watches) return new JsonView(reporter);
  return isInteractive() ? new TerminalView(reporter) : new PlainView(reporter, json);
}
