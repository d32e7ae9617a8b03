/** Logs a server problem that no answer to a client can report. */
export type Report = (problem: string, cause: unknown) => void;
