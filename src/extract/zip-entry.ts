import type { File } from 'unzipper';

/** What the directory of an archive says of one entry, in unzipper's names. */
export type ZipEntry = Pick<
  File,
  | 'path'
  | 'pathBuffer'
  | 'flags'
  | 'compressionMethod'
  | 'crc32'
  | 'compressedSize'
  | 'uncompressedSize'
  | 'fileNameLength'
  | 'extraFieldLength'
  | 'externalFileAttributes'
  | 'offsetToLocalFileHeader'
>;
