export { type Gateway, type GatewayOptions, openGateway } from './gateway.js';
