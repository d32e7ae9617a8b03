/** Logs a problem on the server that no answer to a client can report. */
export type Report = (problem: string, cause: unknown) => void;
