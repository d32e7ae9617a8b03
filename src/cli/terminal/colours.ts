import { Chalk, type ChalkInstance } from 'chalk';
import type { JobState } from '../../contract/index.js';

type Paint = (text: string) => string;

/** Whether a stream gets colours: a terminal does, unless the environment says otherwise. */
export function hasColour(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv): boolean {
  const { FORCE_COLOR, NO_COLOR, CI, TERM } = env;
  if (FORCE_COLOR) return !['0', 'false'].includes(FORCE_COLOR);
  return Boolean(stream.isTTY) && !NO_COLOR && !CI && TERM !== 'dumb';
}

/** The colours of messages and states on one stream. On a stream without colours every function returns the text unchanged. */
export class Colours {
  readonly error: Paint;
  readonly warning: Paint;
  readonly hint: Paint;
  readonly #states: Readonly<Record<JobState, ChalkInstance>>;

  constructor(stream: { readonly isTTY?: boolean }, env: NodeJS.ProcessEnv) {
    const { red, yellow, green, cyan, dim } = new Chalk({ level: hasColour(stream, env) ? 1 : 0 });
    this.error = red;
    this.warning = yellow;
    this.hint = dim;
    this.#states = { queued: dim, waiting: dim, running: cyan, done: green, error: red, killed: yellow };
  }

  /** A job's state; a server may know others, which have no colour. */
  state(name: string): Paint {
    return Object.hasOwn(this.#states, name) ? this.#states[name as JobState] : (text) => text;
  }
}
