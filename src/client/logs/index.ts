export { followToEnd } from './follow-to-end.js';
