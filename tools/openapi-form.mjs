/** The forms of the operations, as OpenAPI schemas. */
import { carriesFiles, groupsField, maxInteger, optionsField } from '../dist/contract/fields.js';
import { array, binary, boolean, integer, number, object, string } from './json-schema.mjs';

/** How a form carries a field: lists travel as text, separated by commas. */
function fieldSchema(field) {
  const description = field.help;
  if (field.kind === 'files') return { ...array(binary), description };
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

/** The form of an operation. */
export function formSchema({ fields }) {
  const properties = {};
  for (const field of fields.filter((each) => !each.option)) {
    properties[field.name] = fieldSchema(field);
    if (field.kind !== 'files') continue;
    properties[groupsField(field)] = { ...string, description: 'Group sizes, separated by commas' };
  }
  properties[optionsField] = optionsSchema(fields);
  return object(
    properties,
    fields.filter((each) => carriesFiles(each) && each.required).map((each) => each.name),
  );
}
