// @ts-check
import { writeFileSync } from 'node:fs';
import path from 'node:path';

/** What nginx would otherwise put into system directories. */
const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];

/**
 * Writes the configuration of an nginx that stays in the foreground and writes into this directory alone.
 * @param {string} directory
 * @param {string} server its `server` block
 * @param {string} [settings] lines for the whole of nginx
 * @returns {string[]} the arguments that it is started with
 */
export function nginxArguments(directory, server, settings = '') {
  const file = path.join(directory, 'nginx.conf');
  const errors = path.join(directory, 'error.log');
  const places = temporary.map((name) => `${name}_temp_path ${directory}/${name};`).join('\n');
  const main = `daemon off;\n${settings}\npid ${directory}/nginx.pid;\nerror_log ${errors};\nevents {}`;
  writeFileSync(file, `${main}\nhttp {\naccess_log off;\n${places}\n${server}\n}\n`);
  return ['-c', file, '-e', errors];
}
