import { constants } from 'node:os';

const [addKey, requestKey, keyctl] = process.arch === 'arm64' ? [217, 218, 219] : [248, 249, 250];

/** Calls of perl, and the error with which each ends in a sandbox; without one it is made. */
const calls: Readonly<Record<string, readonly [call: string, error?: 'ENOSYS' | 'EAFNOSUPPORT']>> = {
  add_key: [`syscall(${addKey}, $type, $name, $value, 6, -3)`, 'ENOSYS'],
  request_key: [`syscall(${requestKey}, $type, $name, 0, 0)`, 'ENOSYS'],
  // The id of the keyring of the session.
  keyctl: [`syscall(${keyctl}, 0, -3, 0)`, 'ENOSYS'],
  io_uring_setup: ['syscall(425, 1, $room)', 'ENOSYS'],
  vsock: ['socket(my $socket, 40, 1, 0)', 'EAFNOSUPPORT'],
  'vsock datagram': ['socket(my $socket, 40, 2, 0)', 'EAFNOSUPPORT'],
  'vsock pair': ['socketpair(my $one, my $other, 40, 1, 0)', 'EAFNOSUPPORT'],
  unix: ['socket(my $socket, 1, 1, 0)'],
  'unix pair': ['socketpair(my $one, my $other, 1, 1, 0)'],
  inet: ['socket(my $socket, 2, 1, 0)'],
  netlink: ['socket(my $socket, 16, 3, 0)'],
};

/** A program of perl that makes these calls. In one line and without single quotes: it is a word of a shell, or a value of a form. */
export const attempts = [
  'my ($type, $name, $value, $room) = (qq(user), qq(remote-app-test), qq(secret), qq(\\0) x 120)',
  ...Object.entries(calls).map(
    ([name, [call]]) => `my $done = ${call}; print qq(${name}: ), $done && $done != -1 ? 0 : 0 + $!, qq(\\n)`,
  ),
].join('; ');

/** What it prints in a sandbox. */
export const answers = Object.entries(calls).map(
  ([name, [, error]]) => `${name}: ${error ? constants.errno[error] : 0}`,
);
