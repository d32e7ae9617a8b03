export { type GatewayOptions, openGateway } from './gateway.js';
