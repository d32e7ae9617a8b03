/** Grammar of the job log as server-sent events (docs/http.md, Log). */

/** The line that ends the stream of a job that is done. */
export const doneMarker = '__DONE__';

/** The beginning of the line that ends the stream of a failed or killed job. */
export const errorMarker = '__ERROR__';

/** The comment sent after every keep-alive interval of silence. */
export const keepAlive = ': keepalive\n\n';

/** The prefix of the service's own lines. */
export const servicePrefix = '[remote-app] ';

/** The beginning, after the prefix, of the line that says that the job's command starts. */
export const startPrefix = 'Starting ';

/** The beginning, after the prefix, of the first of the service's own lines. */
export const acceptance = (jobId: string): string => `Remote job ${jobId} accepted`;

/** The prefix of an event's id, which is the number of its line. */
export const idField = 'id: ';

/**
 * The end, in the log file, of a line that the app ended with a carriage return, so that its next output would replace the line.
 */
export const redrawEnd = '\r';

/** Marks the event of a line ended by a carriage return, for clients that requested it. */
export const redrawField = 'event: redraw';

/** The number of a line, as it appears in events and in requests. */
export const lineNumberPattern = /^\d{1,15}$/;
