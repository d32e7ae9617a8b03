// @ts-check
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { until } from '../until.mjs';
import { placesIn } from './configuration.mjs';
import { isInstalled, programPath } from './prerequisites.mjs';

/** Programs of Debian's packages slurmdbd and mariadb-server, which nothing but accounting needs: 200 MB. */
const programs = ['slurmdbd', 'sacct', 'mariadbd', 'mariadb-install-db'];

/**
 * Why no cluster of this machine can have accounting; null if one can.
 * @returns {string | null}
 */
export function whyNoAccounting() {
  const missing = programs.filter((name) => !isInstalled(name));
  return missing.length === 0 ? null : `accounting needs ${missing.join(', ')}`;
}

/** @typedef {import('./contained.mjs').Contained} Contained */

/**
 * Starts a database and Slurm's accounting on it.
 * @param {string} directory of the cluster
 * @param {{ accounting: number, database: number }} ports
 * @param {(words: readonly string[], name: string) => Promise<Contained>} contain starts a daemon
 * @returns {Promise<Contained[]>}
 */
export async function startAccounting(directory, ports, contain) {
  const { configuration, logs, socket, accounting } = placesIn(directory);
  const own = path.join(directory, 'database');
  const [data, at] = [path.join(own, 'data'), path.join(own, 'socket')];
  mkdirSync(own, { mode: 0o700 });
  const env = { PATH: programPath(), SLURM_CONF: configuration };
  const making = [
    '--no-defaults',
    `--datadir=${data}`,
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
  ];
  execFileSync('mariadb-install-db', making, { env, stdio: 'ignore' });
  const listening = [`--socket=${at}`, `--port=${ports.database}`, '--bind-address=127.0.0.1'];
  const light = ['--skip-log-bin', '--innodb-buffer-pool-size=64M', '--innodb-flush-log-at-trx-commit=0'];
  const words = ['mariadbd', '--no-defaults', '--user=root', `--datadir=${data}`, ...listening, ...light];
  const database = await contain(words, 'mariadbd');
  const sql = (/** @type {string} */ statement) =>
    spawnSync('mariadb', ['--no-defaults', `--socket=${at}`, '--user=root', `--execute=${statement}`], {
      env,
    }).status;
  await until('the database answers', () => sql('select 1') === 0);
  sql(
    "create database slurm; create user slurm@'%' identified by 'slurm'; grant all on slurm.* to slurm@'%'",
  );
  sql("create user slurm@localhost identified by 'slurm'; grant all on slurm.* to slurm@localhost");

  const settings = {
    AuthType: 'auth/munge',
    AuthInfo: `socket=${socket}`,
    DbdHost: 'localhost',
    DbdPort: ports.accounting,
    SlurmUser: 'root',
    StorageType: 'accounting_storage/mysql',
    StorageHost: '127.0.0.1',
    StoragePort: ports.database,
    StorageUser: 'slurm',
    StoragePass: 'slurm',
    StorageLoc: 'slurm',
    LogFile: path.join(logs, 'slurmdbd'),
    PidFile: path.join(directory, 'slurmdbd.pid'),
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  writeFileSync(accounting, lines.join(''), { mode: 0o600 });
  const daemon = await contain(['slurmdbd', '-D'], 'slurmdbd');
  const add = ['--immediate', 'add', 'cluster', 'remote-app'];
  await until('slurmdbd answers', () => spawnSync('sacctmgr', add, { env }).status === 0);
  return [daemon, database];
}
