/** Writes a problem that no client can be told of to the server's log. */
export type Report = (problem: string, cause: unknown) => void;
