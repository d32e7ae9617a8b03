/** Runs programs for what they print or for their end; used by client and server. */

export { type ProgramEnd, type ProgramOptions, runProgram } from './run-program.js';
