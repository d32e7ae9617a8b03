/** An error that the person who started the job can correct; `message` is one sentence that says how. */
export class AppError extends Error {
  exitCode = 1;
}

/** The command line itself is wrong: nothing was read and nothing was written. */
export class UsageError extends AppError {
  exitCode = 2;
}

/** The fault is the app's or its machine's, not that of what the person has sent. */
export class ServiceError extends AppError {}
