import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync } from 'node:fs';
import path from 'node:path';
import { nginxArguments } from '../../support/nginx.mjs';
import { freePort } from '../../support/ports.mjs';
import { until } from './until.mjs';

/** The server of Debian's configuration, with TLS and a path prefix, and no settings of buffering or timeouts but where the path says so. */
const serverOf = (directory, port, target) => `
  server {
    listen 127.0.0.1:${port} ssl;
    ssl_certificate ${directory}/certificate.pem;
    ssl_certificate_key ${directory}/key.pem;
    location /lab/gpu/ {
      proxy_pass ${target}/;
      client_max_body_size 0;
    }
    location /unbuffered/ {
      proxy_pass ${target}/;
      client_max_body_size 0;
      proxy_request_buffering off;
    }
  }`;

const has = (program) => {
  try {
    execFileSync(program, ['-v'], { stdio: 'ignore' });
    return true;
  } catch (cause) {
    return cause.code !== 'ENOENT';
  }
};

/** Whether the programs are there: `apt-get install nginx openssl`. */
export const hasNginx = () => has('nginx') && has('openssl');

/** A stock nginx in front of a server; url, certificate, close(). */
export async function startNginx(context, target) {
  const directory = path.join(context.scratch, `nginx-${context.serial()}`);
  mkdirSync(directory);
  const certificate = path.join(directory, 'certificate.pem');
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  const key = ['-newkey', 'rsa:2048', '-nodes', '-keyout', path.join(directory, 'key.pem')];
  execFileSync('openssl', ['req', '-x509', ...key, '-out', certificate, '-days', '2', ...subject], {
    stdio: 'ignore',
  });
  const port = await freePort();
  const words = nginxArguments(directory, serverOf(directory, port, target));
  const child = spawn('nginx', words, { stdio: 'ignore' });
  await until('nginx listens', async () => {
    if (child.exitCode !== null) throw new Error(`nginx ended with ${child.exitCode}`);
    return fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    );
  });
  return {
    url: `https://localhost:${port}/lab/gpu`,
    certificate,
    close: async () => {
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      await exit;
    },
  };
}
