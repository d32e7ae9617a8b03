import { connect } from 'node:tls';
import { bareHost } from '../../../contract/host.js';

/** Longest wait for the handshake, in milliseconds. */
const longest = 2000;

/**
 * Whether a port speaks TLS. Used when it has closed a plain connection without an answer. Its certificate does not matter,
 * because nothing is sent.
 */
export function speaksTls(url: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: bareHost(url.hostname), port: Number(url.port || 80) });
    let isTls = false;
    const timer = setTimeout(() => socket.destroy(), longest);
    // Emitted before Node checks the certificate.
    socket.prependOnceListener('secure', () => {
      isTls = true;
    });
    socket.once('secureConnect', () => socket.destroy());
    socket.on('error', () => {});
    socket.once('close', () => {
      clearTimeout(timer);
      resolve(isTls);
    });
  });
}
