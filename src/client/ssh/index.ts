export { SshTunnel } from './tunnel.js';
