import { connect } from 'node:tls';

/** Longest wait for the handshake, in milliseconds. */
const longest = 2000;

/**
 * Whether a port speaks TLS, which is asked when it has closed a plain connection without a word. Whose certificate it shows
 * does not matter: nothing is sent.
 */
export function speaksTls(url: URL): Promise<boolean> {
  return new Promise((resolve) => {
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const socket = connect({ host, port: Number(url.port || 80) });
    let isTls = false;
    const timer = setTimeout(() => socket.destroy(), longest);
    // Comes before the certificate is judged.
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
