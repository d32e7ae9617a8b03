import type { IncomingMessage } from 'node:http';

/** Lets a request's bytes come while nobody holds them up: several may, for reasons that know nothing of each other. */
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
