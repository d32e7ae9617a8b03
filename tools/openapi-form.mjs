/** The forms of the operations, as OpenAPI schemas. */
import { volumeSuffix } from '../dist/contract/archives.js';
import { carriesFiles, groupsField, maxInteger, optionsField } from '../dist/contract/fields.js';
import { uploadNamePattern } from '../dist/contract/http.js';
import { array, binary, boolean, integer, number, object, string } from './json-schema.mjs';

/** How a form carries the files of a field. Its help text is that of our command line, where a flag is one group. */
const filesText = (field) =>
  `The files, one part each: one group, unless ${groupsField(field)} gives the sizes of several. A part named ` +
  `NAME${volumeSuffix} is one directory (a DICOM series, an OME-Zarr store), as a zip archive`;

/** How a form carries a field: lists travel as text, separated by commas. */
function fieldSchema(field) {
  const description = field.help;
  if (field.kind === 'files') return { ...array(binary), description: filesText(field) };
  if (field.kind === 'archive') return { ...binary, description };
  const bounds = { ...(field.min === undefined ? {} : { minimum: field.min }), maximum: maxInteger };
  const above = field.above === undefined ? {} : { exclusiveMinimum: field.above };
  const byKind = {
    integer: { ...integer, ...bounds },
    number: { ...number, ...above },
    boolean,
    integers: array({ ...integer, ...bounds }),
    overrides: array({ ...string, pattern: '^[^-=][^=]*=' }),
  };
  const schema = byKind[field.kind] ?? string;
  return { ...schema, ...(field.default === undefined ? {} : { default: field.default }), description };
}

function optionsSchema(fields) {
  const known = Object.fromEntries(
    fields.filter((each) => each.option).map((each) => [each.name, fieldSchema(each)]),
  );
  return { ...object(known, []), additionalProperties: false, description: 'A JSON object, sent as text' };
}

/** A file of a submission as JSON. */
const namedFile = {
  ...object({ upload: { ...string, pattern: uploadNamePattern.source }, name: string }),
  description: 'An upload, by the SHA-256 of its content, and the name of the file',
};

/** The same as JSON, with uploads in place of files. */
export function namedFormSchema(operation) {
  const schema = formSchema(operation);
  const properties = { ...schema.properties };
  for (const field of operation.fields.filter(carriesFiles)) {
    const group = array(namedFile);
    properties[field.name] =
      field.kind === 'archive'
        ? { ...namedFile, description: field.help }
        : {
            ...array({ oneOf: [namedFile, group] }),
            description: 'The files: one group, or a list of groups',
          };
    if (field.kind === 'files') delete properties[groupsField(field)];
  }
  properties[optionsField] = { ...properties[optionsField], description: 'Settings' };
  return { ...schema, properties };
}

/** The form of an operation. */
export function formSchema({ fields }) {
  const properties = {};
  for (const field of fields.filter((each) => !each.option)) {
    properties[field.name] = fieldSchema(field);
    if (field.kind !== 'files') continue;
    properties[groupsField(field)] = {
      ...string,
      description: `Sizes of the groups, separated by commas, in the order of the files: '2,1' is a group of two, then one of one`,
    };
  }
  properties[optionsField] = optionsSchema(fields);
  return object(
    properties,
    fields.filter((each) => carriesFiles(each) && each.required).map((each) => each.name),
  );
}
