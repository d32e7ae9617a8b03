import type { IncomingMessage } from 'node:http';

/** Pauses a request while at least one of several independent holders asks for it. */
export class RequestFlow {
  #holders = 0;

  constructor(private readonly request: IncomingMessage) {}

  hold(): void {
    this.#holders += 1;
    this.request.pause();
  }

  release(): void {
    this.#holders -= 1;
    if (this.#holders === 0) this.request.resume();
  }
}
