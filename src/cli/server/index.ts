/** What commands ask of the server itself, apart from its jobs and apps. */
export { describeDrain, drain } from './drain.js';
export { type Login, type Logout, logIn, logOut } from './log-in.js';
export { describeMachine, describeUsage, lastUse, type Machine } from './server-text.js';
