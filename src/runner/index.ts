/** The programs that run a job or keep an app loaded, and how the server talks to them. */
export { LineSplitter } from './log.js';
export { makeFifo } from './pipes.js';
export { identify, isAlive, isSignalable, keeperIn, runnerIn, runners } from './process-table.js';
export { areReplaced, cleanupProgram, keeperProgram, runnerProgram } from './programs.js';
export {
  type Frame,
  FrameReader,
  frameKinds,
  isClosed,
  jobMarker,
  type KeeperRecord,
  type KeeperState,
  maxEndBytes,
  type ProcessIdentity,
  type RunEnd,
  type RunnerRecord,
  type RunRequest,
  runFiles,
  sendFrame,
  type WorkerCall,
  type WorkerRequest,
  withSocketAddress,
  workerFiles,
} from './protocol.js';
export { lowerPriority } from './start-program.js';
export { signal, terminateGroup, terminateStrays } from './terminate.js';
