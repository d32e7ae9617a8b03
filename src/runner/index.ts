/** The programs that run a job or keep an app loaded, and the protocol between them and the server. */
export { makeFifo } from './pipes.js';
export {
  isAlive,
  jobsOf,
  removedButOpen,
  runnerIn,
  runners,
  workerHostIn,
} from './process-table.js';
export { areReplaced, cleanupProgram, runnerProgram, workerHostProgram } from './programs.js';
export {
  type HostMessage,
  isClosed,
  jobMarker,
  maxEndBytes,
  onMessages,
  type ProcessIdentity,
  type RunEnd,
  type RunnerRecord,
  type RunRequest,
  runFiles,
  sendMessage,
  type Usage,
  unknownUsage,
  type WorkerCall,
  type WorkerHostRecord,
  type WorkerRequest,
  type WorkerState,
  withSocketAddress,
  workerFiles,
} from './protocol.js';
export { lowerPriority } from './start-program.js';
export { signal, terminateGroup, terminateStrays } from './terminate.js';
