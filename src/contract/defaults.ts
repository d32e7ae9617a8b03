/** Defaults that both sides share (docs/http.md). */

export const defaultHost = '127.0.0.1';
export const defaultPort = 8000;

/** Where a client looks for a server. */
export const defaultServer = `http://${defaultHost}:${defaultPort}`;

/** The environment variable that holds the token. */
export const tokenVariable = 'SERVICE_API_TOKEN';

/** Seconds of silence of a log after which the service sends a comment. */
export const keepAliveInterval = 15;
