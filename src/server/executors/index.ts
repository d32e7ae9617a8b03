/** Where jobs run: the seam, and what every executor does with devices and with the files of a runner. */
export { checkDevices, gpuEnvironment, refuseUnknown } from './devices.js';
export {
  type AskedDevices,
  type Device,
  type DeviceMemory,
  type DeviceRequest,
  type Ended,
  type Executor,
  type Grant,
  gpusOf,
  type JobPlace,
  type LoadedApp,
  type Placed,
  type Reach,
  type Resident,
  type RunEvent,
  type RunOrder,
  type Waiting,
} from './executor.js';
export {
  checkRunnerRoom,
  isRemoved,
  lacksRoom,
  readRunGpus,
  readRunnerRecord,
  settleRunEnd,
  unrecordedEnd,
} from './run-files.js';
