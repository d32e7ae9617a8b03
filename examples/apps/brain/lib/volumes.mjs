/** Reading and writing of volumes, which remote-app has for its apps. This file alone says where it is. */
export {
  isSameGeometry,
  readVolume,
  spacingOf,
  VolumeError,
  writeNifti,
} from '../../../../dist/volumes/index.js';
