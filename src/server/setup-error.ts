/** The server cannot start with these settings: an app, the data directory or the address is wrong. */
export class SetupError extends Error {
  override readonly name = 'SetupError';
}
