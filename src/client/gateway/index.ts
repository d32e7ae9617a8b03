export { openGateway } from './gateway.js';
