/** A JSON document as a table: a row for each name in it, from its schema. */
import { z } from 'zod';
import { code, table } from './markdown.mjs';

/** What a value is, in words. */
function kindOf(schema) {
  if (schema.const !== undefined) return code(JSON.stringify(schema.const));
  if (schema.enum) return schema.enum.map((each) => code(JSON.stringify(each))).join(', ');
  if (schema.anyOf) return [...new Set(schema.anyOf.map(kindOf))].join(' or ');
  if (schema.type === 'array')
    return schema.items.type === 'object' ? 'list' : `list of ${kindOf(schema.items)}`;
  if (Array.isArray(schema.type)) return schema.type.map((type) => kindOf({ type })).join(' or ');
  if (schema.format === 'date-time') return 'time (ISO 8601)';
  if (schema.type === 'object') return 'object';
  return schema.type === 'string' ? 'text' : (schema.type ?? 'any JSON');
}

/** Whether a value is the document of an error, which the page describes once. */
const isError = ({ properties = {}, anyOf = [] }) => 'exit_code' in properties || anyOf.some(isError);

/** The rows of a schema's properties. */
function rowsOf({ properties = {}, required = [] }, prefix) {
  return Object.entries(properties).flatMap(([name, property]) => {
    const place = prefix + name;
    const kind = kindOf(property) + (required.includes(name) ? '' : ', may be missing');
    const about = property.description ?? '';
    if (isError(property)) return [[code(place), kind, `${about}, as [every error](#json) says it`]];
    return [[code(place), kind, about], ...rowsBelow(property, place)];
  });
}

/** The rows for the content of a value: of an object, of the entries of a list or of a map, of each of its forms. */
function rowsBelow(schema, place) {
  if (schema.properties) return rowsOf(schema, `${place}.`);
  if (schema.items) return rowsBelow(schema.items, `${place}[]`);
  if (typeof schema.additionalProperties === 'object')
    return rowsBelow(schema.additionalProperties, `${place}.*`);
  const forms = (schema.anyOf ?? []).filter(({ type }) => type === 'object');
  const isInAll = (name) => forms.every(({ required = [] }) => required.includes(name));
  const rows = (schema.anyOf ?? [])
    .map(({ required = [], ...form }) => ({ ...form, required: required.filter(isInAll) }))
    .flatMap((form) => rowsBelow(form, place));
  // The same name in two forms is one row.
  return [...new Map(rows.map((each) => [each[0], each])).values()];
}

const tableOf = (rows) => table(['name', 'value', 'meaning'], rows);

export const documentTable = (schema) => tableOf(rowsOf(z.toJSONSchema(schema), ''));

/** The document of an error, whole. */
export function errorTable(schema) {
  const { error } = z.toJSONSchema(schema).properties;
  return tableOf([[code('error'), kindOf(error), error.description], ...rowsOf(error, 'error.')]);
}
