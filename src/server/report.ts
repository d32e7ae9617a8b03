/** Says on the server's log what no client can be told. */
export type Report = (problem: string, cause: unknown) => void;
