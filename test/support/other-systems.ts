import { list } from './list.mjs';

/** Files of tests that cannot work on other systems than Linux. */
interface LeftOut {
  readonly why: string;
  readonly on: readonly NodeJS.Platform[];
  readonly files: readonly string[];
}

/**
 * What continuous integration leaves out of the client's tests on Windows and macOS. The last list is what failed under Wine, none of it
 * because of the client.
 */
export const leftOut: readonly LeftOut[] = [
  {
    why: 'they test the server or start one, and serve needs Linux',
    on: ['darwin', 'win32'],
    files: list`test/cli/serve/announcements.test.ts test/cli/serve/log-events.test.ts
      test/cli/serve/processors.test.ts test/cli/serve/server-log.test.ts test/cli/serve/settings.test.ts
      test/client/submit/cut-uploads.test.ts test/client/submit/uploads.test.ts test/commands/apps-refresh.test.ts test/commands/cite.test.ts
      test/commands/deidentify.test.ts test/commands/drain.test.ts test/commands/ended-jobs.test.ts
      test/commands/forward.test.ts test/commands/init.test.ts test/commands/kept-log.test.ts
      test/commands/kept.test.ts test/commands/kill.test.ts test/commands/last-job.test.ts
      test/commands/logs.test.ts test/commands/measured.test.ts test/commands/on-end.test.ts
      test/commands/out-of-memory.test.ts
      test/commands/outages.test.ts test/commands/output-place.test.ts test/commands/proxy.test.ts
      test/commands/resources.test.ts test/commands/served.test.ts test/commands/ssh.test.ts
      test/commands/token.test.ts test/commands/uploads.test.ts test/commands/used.test.ts
      test/commands/wait.test.ts`,
  },
  {
    why: 'they lock files, and there is no flock',
    on: ['darwin', 'win32'],
    files: [
      'test/client/cohort/results-directory.test.ts',
      'test/files/find-program.test.ts',
      'test/files/whole-file.test.ts',
    ],
  },
  {
    why: 'they expect the paths, modes, links and FIFOs of Linux',
    on: ['win32'],
    files: list`packages/volumes/test/dicom-values.test.ts packages/volumes/test/dicom.test.ts
      packages/volumes/test/write-dicom-series.test.ts test/archive/bounds.test.ts
      test/archive/extract-lenient.test.ts test/archive/extract.test.ts
      test/cli/interruption.test.ts test/cli/monai-bundle-app.test.ts test/cli/nnunet-app.test.ts
      test/cli/settings.test.ts test/cli/submit/earlier-commands.test.ts
      test/cli/submit/path-order.test.ts test/cli/submit/submission.test.ts
      test/cli/terminal/canvas.test.ts test/client/cohort/cases.test.ts
      test/client/cohort/neutral-numbers.test.ts test/client/connection/profiles.test.ts
      test/client/connection/ways.test.ts test/client/result/download.test.ts
      test/client/result/fetch-archive.test.ts test/client/result/place.test.ts
      test/files/directories.test.ts test/files/errors.test.ts test/files/lines.test.ts
      test/files/names.test.ts test/files/other-systems.test.ts test/files/own-file.test.ts
      test/files/read-file.test.ts test/files/walk.test.ts test/imaging/deidentify/identifiers.test.ts
      test/imaging/deidentify/names.test.ts test/imaging/deidentify/repack.test.ts
      test/imaging/deidentify/volume-formats.test.ts test/imaging/inputs/cases.test.ts
      test/imaging/inputs/dicom.test.ts test/imaging/inputs/found-elsewhere.test.ts
      test/imaging/inputs/found.test.ts test/imaging/inputs/halves.test.ts
      test/imaging/inputs/inputs.test.ts test/imaging/inputs/sending-rules.test.ts
      test/imaging/inputs/links.test.ts test/imaging/inputs/names.test.ts
      test/imaging/inputs/pairing.test.ts test/imaging/inputs/real-files.test.ts
      test/imaging/inputs/series.test.ts test/imaging/inputs/sidecars.test.ts
      test/imaging/inputs/units.test.ts test/imaging/pictures/cases.test.ts
      test/imaging/pictures/shown.test.ts`,
  },
];

/** The files that are left out on a system, which are printed with the reasons. */
export function leftOutOn(platform: NodeJS.Platform): string[] {
  const lists = leftOut.filter(({ on }) => on.includes(platform));
  for (const { why, files } of lists) console.warn(`Left out, because ${why}: ${files.join(', ')}`);
  return lists.flatMap(({ files }) => files);
}
