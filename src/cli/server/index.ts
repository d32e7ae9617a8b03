/** Shared by the commands about the server itself, as opposed to its jobs and apps. */
export { describeDrain, describeDrainedGpus, drain } from './drain.js';
export { describeForwarding, type Forwarding, forwardUntil } from './forward.js';
export { type Login, type Logout, logIn, logOut } from './log-in.js';
export { describeMachine, describeUsage, lastUse, type Machine } from './server-text.js';
