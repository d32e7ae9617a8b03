/** Writes a problem to the server's log: one that no answer to a client can tell. */
export type Report = (problem: string, cause: unknown) => void;
