/** Writing to pipes whose reader may leave: that is no error (interface.md, Clients). */

let outClosed = false;

function isClosed(error: Error | null | undefined): boolean {
  const code = (error as NodeJS.ErrnoException | null | undefined)?.code;
  return code === 'EPIPE' || code === 'ERR_STREAM_DESTROYED';
}

/** Keeps a closed stdout or stderr from ending the process with a stack. */
export function tolerateClosedPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    if (stream.listeners('error').includes(onError)) continue;
    stream.on('error', onError);
  }
}

function onError(error: Error): void {
  if (!isClosed(error)) throw error;
}

/**
 * Writes to stdout and waits until it takes more.
 * @returns false where the reader has left
 */
export function writeOut(text: string): Promise<boolean> {
  if (outClosed) return Promise.resolve(false);
  return new Promise((resolve, reject) => {
    process.stdout.write(text, (error) => {
      if (error && !isClosed(error)) return reject(error);
      outClosed = Boolean(error);
      resolve(!outClosed);
    });
  });
}

/** Writes to stderr. */
export function writeErr(text: string): void {
  process.stderr.write(text);
}

/** Whether a person sees what goes to stderr as it is written: bars and colours are for nobody else. */
export function isInteractive(env: NodeJS.ProcessEnv = process.env): boolean {
  const { isTTY, columns } = process.stderr;
  // A terminal without a width (`docker run -t` gives one) cannot redraw a line: what counts its rows never ends.
  return Boolean(isTTY) && columns > 0 && !env.CI && env.TERM !== 'dumb';
}

/** The same for colours. */
export const hasColour = (env: NodeJS.ProcessEnv = process.env): boolean =>
  isInteractive(env) && !env.NO_COLOR;
