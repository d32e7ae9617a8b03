/** The server cannot be started as it was asked to: an app, the data directory or the address is at fault. */
export class SetupError extends Error {
  override readonly name = 'SetupError';
}
