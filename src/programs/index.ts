/** Runs programs and waits for their output or their end; used by client and server. */

export { type ProgramEnd, type ProgramOptions, runProgram } from './run-program.js';
