import { findProgram } from '../../files/find-program.js';

/**
 * What a loaded app sees of its jobs. Its sandbox is there before them, so it is made inside another one, whose user may
 * mount: what is mounted below a directory there, the stage, appears in the sandbox as well, and goes when it is unmounted.
 */
export interface Stage {
  /** The keeper's directory for it, empty. */
  readonly directory: string;
  /** The directory of the jobs. In the sandbox it is the stage. */
  readonly jobs: string;
}

/** The descriptor on which the keeper says which job is to be seen, and hears when it is. */
const stageDescriptor = 5;

/** What a job sees of its directory. */
const parts = ['Input', 'Output', 'Workspace'];
/** The same as words of the script. */
const places = parts.map((part) => `"$stage/$job/${part}"`).join(' ');

/**
 * Makes the stage, and then becomes the command that follows. A process of its own reads lines `show ID` and `hide ID`
 * until the keeper is gone, and answers with what it has done. It has no other descriptor of the keeper's. The job waits for
 * it, so the parts are mounted side by side.
 */
const script = `stage=$1 jobs=$2
shift 2
mount --bind "$stage" "$stage" && mount --make-rshared "$stage" || exit 1
while read -r verb job; do
  if [ "$verb" = show ]; then
    mkdir -p ${places}
    mounting=
    for part in ${parts.join(' ')}; do
      mount --bind "$jobs/$job/$part" "$stage/$job/$part" &
      mounting="$mounting $!"
    done
    for each in $mounting; do wait "$each" || verb=failed; done
  else
    umount -l ${places}
    rmdir ${places} "$stage/$job"
  fi
  echo "$verb"
done <&${stageDescriptor} >&${stageDescriptor} 2>/dev/null 3>&- 4>&- 6>&- &
exec "$@" ${stageDescriptor}<&-`;

/** Drops the rights of the outer sandbox: bwrap refuses to start with rights that it did not give itself. */
const withoutRights = ['--inh-caps=-all', '--ambient-caps=-all'];

const systemPath = '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin';

/**
 * The words that stand before a sandbox whose jobs come and go.
 * @param bwrap the program
 * @throws Error in words where a program is missing
 */
export function stageWords(bwrap: string, { directory, jobs }: Stage): string[] {
  const [shell, setpriv] = ['sh', 'setpriv'].map((name) => {
    const found = findProgram(name, systemPath);
    if (found === undefined) throw new Error(`there is no program ${name}`);
    return found;
  }) as [string, string];
  return [
    bwrap,
    '--unshare-user',
    '--cap-add',
    'CAP_SYS_ADMIN',
    '--dev-bind',
    '/',
    '/',
    '--die-with-parent',
    '--',
    shell,
    '-c',
    script,
    'sh',
    directory,
    jobs,
    setpriv,
    ...withoutRights,
  ];
}
