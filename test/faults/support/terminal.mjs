import { writeFileSync } from 'node:fs';
import path from 'node:path';

/** Runs a program on a terminal of its own, as a shell does; a child holds the other end until a file appears. */
const onTerminal = `
import fcntl, os, pty, select, sys, termios, time
master, slave = pty.openpty()
if os.fork() == 0:
    os.close(slave)
    os.close(1)
    while not os.path.exists(sys.argv[1]):
        if select.select([master], [], [], 0.05)[0]:
            try:
                os.read(master, 65536)
            except OSError:
                break
    os._exit(0)
os.close(master)
os.setsid()
fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
os.dup2(slave, 0)
os.dup2(slave, 2)
os.close(slave)
os.execvp(sys.argv[2], sys.argv[2:])
`;

/** Words to put before a command so that a terminal is its stdin and stderr, and what closes that terminal. */
export function terminalThatCloses(context) {
  const file = path.join(context.scratch, `closed-${context.serial()}`);
  return { launcher: ['python3', '-c', onTerminal, file], close: () => writeFileSync(file, '') };
}

/** Copies what a program writes to a terminal to stdout, byte for byte, and ends with its exit code. */
const recorder = `
import fcntl, os, pty, struct, sys, termios
pid, master = pty.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack('HHHH', 40, 200, 0, 0))
while True:
    try:
        data = os.read(master, 65536)
    except OSError:
        break
    if not data:
        break
    os.write(1, data)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
`;

/** Words to put before a command whose terminal is to be recorded. */
export const recorded = ['python3', '-c', recorder];
