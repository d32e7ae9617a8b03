/** The files of a store of Zarr, version 2, with one array of one chunk. */
export const zarrStore = (
  directory: string,
  chunk: string | Buffer = 'x',
): Record<string, string | Buffer> => ({
  [`${directory}/.zgroup`]: '{"zarr_format": 2}',
  [`${directory}/0/.zarray`]: JSON.stringify({
    ...{ zarr_format: 2, shape: [1], chunks: [1], dimension_separator: '/' },
    ...{ dtype: '|u1', compressor: null, fill_value: 0, order: 'C', filters: null },
  }),
  [`${directory}/0/0`]: chunk,
});
